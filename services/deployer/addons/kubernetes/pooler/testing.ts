import pg from "pg";
import { expect } from "vitest";
import { newId } from "../../../../kit/ids.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import * as kinds from "../../../kube/kinds.ts";
import { addonName } from "../../keys.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon, AddonServers } from "../../port.ts";
import type { addonsForTest } from "../testing.ts";
import { ofPooler } from "./manifests.ts";

/** More than a server admits. */
const CLIENTS = 120;
const READ = "select 'yes'";

/** Takes an addon from its creation to its removal, with a pooler all the while except for a moment. */
export async function provePooler(
  cluster: ReturnType<typeof addonsForTest>,
  servers: AddonServers,
  addon: Addon,
): Promise<void> {
  const { environmentId, serviceId } = addon;
  const [namespace, poolers] = [cluster.spaceOf(environmentId), servers.poolers!];
  const until = (what: string, ensure: () => ReturnType<AddonServers["ensure"]>) =>
    eventually(`${what} is ready`, async () => (await ensure()).state === "ready");
  const pooled = (password: string, from?: string) =>
    cluster.ask(addon, password, READ, from, { pooled: true });
  const deployments = async () =>
    (await cluster.leftOf(addon)).filter((kind) => kind === "Deployment").length;

  const password = newPassword();
  await until("the addon", () => servers.ensure(addon, password));
  await until("the pooler", () => poolers.ensure(addon, password));
  expect(await pooled(password)).toEqual({ ok: true, said: "yes" });
  expect((await pooled(newPassword())).said).toContain("SASL authentication failed");
  const elsewhere = await pooled(password, newId("env"));
  expect([elsewhere.ok, elsewhere.said.includes("yes")]).toEqual([false, false]);
  // Neither what reaches the addon nor what counts it takes the pooler for its server.
  await eventually("the addon runs", async () => (await servers.status(addon))?.running);

  const most = await cluster.ask(addon, password, "show max_connections");
  expect(Number(most.said)).toBeLessThan(CLIENTS);
  await cluster.admitThisMachine(environmentId);
  const [pod] = (await cluster.kube.list(kinds.Pod, { namespace, labels: ofPooler(serviceId) })).items;
  expect(JSON.stringify(pod)).not.toContain(password);
  const name = addonName(serviceId);
  const login = { host: pod!.status!.podIP!, port: 6432, user: name, database: name, password };
  const connect = async () => {
    const client = new pg.Client(login);
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  const first = await eventually("the network admits this machine", () => connect().catch(() => undefined));
  const clients = [first, ...(await Promise.all(Array.from({ length: CLIENTS - 1 }, connect)))];
  const answers = await Promise.all(clients.map((client) => client.query("select 1 as n")));
  expect(answers.map(({ rows }) => rows[0].n)).toEqual(clients.map(() => 1));
  await Promise.all(clients.map((client) => client.end()));

  const [now, next] = [{ ...addon, generation: 1 }, newPassword()];
  await until("the addon", () => servers.ensure(now, next));
  await until("the pooler", () => poolers.ensure(now, next));
  expect(await pooled(next)).toEqual({ ok: true, said: "yes" });
  expect((await pooled(password)).said).toContain("SASL authentication failed");
  await expect(poolers.ensure(addon, password)).rejects.toThrow("newer password");

  await poolers.remove(now);
  expect(await deployments()).toBe(0);
  expect(await cluster.ask(addon, next, READ)).toEqual({ ok: true, said: "yes" });
  await until("the pooler", () => poolers.ensure(now, next));
  expect(await deployments()).toBe(1);
  await servers.remove(now);
  await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
}
