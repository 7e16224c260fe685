import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { PersistentVolumeClaim, Pod, Secret, StatefulSet } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";

type Addon = {
  id: string;
  status: string;
  config: { replicas?: number };
  credentialsRotatedAt?: string;
  capabilities: { maxReplicas: number };
};

let world: Platform;
let kube: Kube;
beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

test("with the chart, a redis addon gets a standby, which takes over from a primary that hangs, and goes again", {
  timeout: 900_000,
}, async () => {
  const { E, S: at } = await world.environment();
  const S = at("cache");
  await world.must("POST", `${E}/services`, { name: "cache", type: "redis" });
  const show = () => world.must<Addon>("GET", S);
  const isRunning = async () => (await show()).status === "running";
  await eventually("the addon runs", isRunning);
  const { id, capabilities } = await show();
  expect(capabilities).toMatchObject({ maxReplicas: 2 });
  await world.must("POST", `${E}/variables`, { name: "CACHE", connection: { service: "cache", key: "URL" } });

  const servers = async () => {
    const labels = selector({ [label("serviceId")]: id, [label("kind")]: "addon" });
    const { items } = await kube.list(Pod, { labels });
    return items.filter(({ metadata, status }) => {
      const ready = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
      return ready && !metadata?.deletionTimestamp;
    });
  };
  const { send } = await connectKubectl();
  /** Sends a command to the addon's address, or to another one that a server reaches, as who has its URL. */
  async function ask(command: string, address?: string): Promise<string> {
    const { value } = await world.must<{ value: string }>("POST", `${E}/variables/CACHE/reveal`);
    const { hostname, port, password } = new URL(value);
    const host = address ?? hostname;
    const { namespace, name } = (await servers())[0]!.metadata!;
    const script = `export REDISCLI_AUTH='${password}'; redis-cli -h ${host} -p ${port} ${command} 2>&1 || true`;
    return (await send(script, "exec", "-i", "-n", namespace!, name!, "--", "sh", "-s")).trim();
  }
  const untilSays = (what: string, command: string, answer: string, address?: string) =>
    eventually(what, async () => (await ask(command, address).catch(() => "")) === answer);

  await world.must("PATCH", S, { config: { replicas: 2 } });
  await eventually("both servers run", async () => (await servers()).length === 2);
  await untilSays("it takes writes", "set kept first", "OK");
  await world.must("POST", `${S}/rotate-credentials`);
  await eventually("it has a new password", async () => (await show()).credentialsRotatedAt !== undefined);
  await untilSays("it is reached with that", "get kept", "first");
  await eventually("both servers run", async () => (await servers()).length === 2);

  const failovers = async () => {
    const { status, body } = await world.call<{ data: { kind: string }[] }>(
      "GET",
      "/notifications?limit=100",
    );
    // A server that hangs may take a processor, which makes others late.
    if (status === 503) return 0;
    return body.data.filter(({ kind }) => kind === "addon.failover").length;
  };
  // On a busy machine, a standby may also take over from a primary that is only slow.
  const heard = await eventually(
    "its members hear that both changed places for the password",
    async () => (await failovers()) || undefined,
  );
  // A script that never ends: the server answers nobody else, and its container is killed after a minute.
  const hanging = ask("eval 'while true do end' 0").catch(() => {});
  await eventually("its members hear that the standby took over", async () => (await failovers()) > heard);
  await hanging;
  await untilSays("it has its data", "get kept", "first");
  await untilSays("it takes writes", "set kept second", "OK");
  await eventually("both servers run", async () => (await servers()).length === 2);

  await world.must("PATCH", S, { config: { replicas: 1 } });
  await eventually("one server is left", async () => {
    const labels = selector({ [label("serviceId")]: id });
    const { items } = await kube.list(PersistentVolumeClaim, { labels });
    return items.length === 1 && (await servers()).length === 1;
  });
  await eventually("the addon runs", isRunning);
  // A server without a standby is not reached from others, which is how it would reach its own address.
  await untilSays("it has its data", "get kept", "second", "127.0.0.1");

  await world.must("DELETE", S, { confirmImpact: true });
  await eventually("nothing of it is left", async () => {
    const labels = selector({ [label("serviceId")]: id });
    const pages = await Promise.all([
      kube.list(StatefulSet, { labels }),
      kube.list(Pod, { labels }),
      kube.list(Secret, { labels }),
    ]);
    return pages.every(({ items }) => items.length === 0);
  });
});
