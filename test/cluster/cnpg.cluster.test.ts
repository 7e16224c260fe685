import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Pod, PostgresCluster, Secret } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";

type Addon = {
  id: string;
  status: string;
  config: { replicas?: number };
  credentialsRotatedAt?: string;
  capabilities: { backups: boolean; maxReplicas: number };
  backups: { restore?: { status: string; failure?: string }; oldestRestorableAt?: string };
};

let world: Platform;
let kube: Kube;
beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

test("with the chart, a PostgreSQL addon runs on CloudNativePG: standbys, passwords, backups, and its end", async () => {
  const { E, S: at } = await world.environment();
  const S = at("store");
  await world.must("POST", `${E}/services`, { name: "store", type: "postgres", config: { replicas: 2 } });
  const show = () => world.must<Addon>("GET", S);
  const untilRunning = () => eventually("the addon runs", async () => (await show()).status === "running");
  await untilRunning();
  const { id, capabilities } = await show();
  expect(capabilities).toMatchObject({ backups: true, maxReplicas: 3 });
  await world.must("POST", `${E}/variables`, { name: "STORE", connection: { service: "store", key: "URL" } });

  const instances = async () => {
    const labels = selector({
      [label("service")]: id,
      [label("kind")]: "instance",
      "cnpg.io/podRole": "instance",
    });
    const { items } = await kube.list(Pod, { labels });
    return items.filter(({ metadata, status }) => {
      const ready = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
      return ready && !metadata?.deletionTimestamp;
    });
  };
  await eventually("both servers run", async () => (await instances()).length === 2);

  const isPrimary = ({ metadata }: V1Pod) => metadata?.labels?.["cnpg.io/instanceRole"] === "primary";

  /** Runs a statement beside the primary, as who has the addon's URL. */
  async function query(statement: string): Promise<string> {
    const { value } = await world.must<{ value: string }>("POST", `${E}/variables/STORE/reveal`);
    const url = new URL(value);
    url.hostname = "127.0.0.1";
    const primary = (await instances()).find(isPrimary);
    const { namespace, name } = primary!.metadata!;
    const script = `psql '${url}' -XAtq -v ON_ERROR_STOP=1 -c "${statement}" 2>&1 || true`;
    const { send } = await connectKubectl();
    return (
      await send(script, "exec", "-i", "-n", namespace!, name!, "-c", "postgres", "--", "sh", "-s")
    ).trim();
  }
  expect(await query("create table notes as select 'first' as text")).toBe("");
  const before = (await instances()).map(({ metadata }) => metadata?.uid).sort();
  await world.must("POST", `${S}/rotate-credentials`);
  await eventually("it has a new password", async () => (await show()).credentialsRotatedAt !== undefined);
  await eventually("the variable has it", async () => (await query("select text from notes")) === "first");
  expect((await instances()).map(({ metadata }) => metadata?.uid).sort()).toEqual(before);

  const backup = await world.must<{ id: string }>("POST", `${S}/backups`);
  await eventually("the backup has succeeded", async () => {
    return (await world.must<Addon>("GET", `${S}/backups/${backup.id}`)).status === "succeeded";
  });
  await query("insert into notes values ('second')");
  await world.must("POST", `${S}/restore`, { backup: backup.id, confirmImpact: true });
  await eventually("it is restored", async () => (await show()).backups.restore?.status === "succeeded");
  expect(await query("select text from notes")).toBe("first");

  await eventually("there is a base backup", async () => {
    return (await show()).backups.oldestRestorableAt !== undefined;
  });
  await query("update notes set text = 'third'");
  const moment = await query(
    "select replace(to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), ' ', 'T') || 'Z'",
  );
  await query("drop table notes");
  await world.must("POST", `${S}/restore`, { at: moment, confirmImpact: true });
  // A server is made, recovers, is dumped and goes, and then that is restored.
  await eventually(
    "it has its data of that moment",
    async () => {
      const { restore } = (await show()).backups;
      expect(restore?.failure).toBeUndefined();
      return restore?.status === "succeeded";
    },
    600_000,
  );
  expect(await query("select text from notes")).toBe("third");
  await query("update notes set text = 'first'");

  const [primary] = (await instances()).filter(isPrimary);
  await kube.remove(Pod, primary!.metadata!.name!, primary!.metadata!.namespace, { gracePeriodSeconds: 0 });
  await eventually("its members hear that the standby took over", async () => {
    const { data } = await world.must<{ data: { kind: string }[] }>("GET", "/notifications?limit=100");
    return data.some(({ kind }) => kind === "addon.failover");
  });
  await eventually("both servers run again", async () => (await instances()).length === 2);
  expect(await query("select text from notes")).toBe("first");

  await world.must("PATCH", S, { config: { replicas: 1 } });
  await eventually("one server is left", async () => (await instances()).length === 1);
  await untilRunning();
  expect((await show()).config.replicas).toBe(1);

  await world.must("DELETE", S, { confirmImpact: true });
  await eventually("nothing of it is left", async () => {
    const labels = selector({ [label("service")]: id });
    const pages = await Promise.all([
      kube.list(PostgresCluster, { labels }),
      kube.list(Pod, { labels }),
      kube.list(Secret, { labels }),
    ]);
    return pages.every(({ items }) => items.length === 0);
  });
});
