import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Pod } from "../../services/deployer/kube/kinds.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";
import { podsOf, saying, webService } from "./web-service.ts";

let world: Platform;
let kube: Kube;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});

afterAll(() => world?.stop());

const states = ["queued", "building", "built", "applied"] as const;
test.each(states)(
  "the deployer killed while a deployment is %s: it ends applied, once, by itself",
  async (state) => {
    const { deploy, at, S, said, id, log } = await webService(world);
    const version = await deploy({ "package.json": "{}", "server.js": saying("after the kill") });
    const order = ["queued", "building", "built", "applied"];
    await eventually(`it is ${state}, or further`, async () => {
      const { status } = await at(version);
      return order.indexOf(status) >= order.indexOf(state);
    });
    await killDeployers();
    await eventually("a deployer answers again", async () => (await world.call("GET", S)).status === 200);
    expect(await settled(world, S, version)).toMatchObject({ status: "applied", errors: [] });
    await eventually("it answers", async () => (await said()) === "after the kill");
    const all = await world.must<{ data: Deployment[] }>("GET", `${S}/deployments`);
    expect(all.data.map(({ version, status }) => [version, status])).toEqual([[1, "applied"]]);
    const stages = (await log(version)).split("It starts with:").length - 1;
    expect(stages).toBe(1);
    const running = (await podsOf(kube, id)).filter((pod) => pod.status?.phase === "Running");
    expect(running).toHaveLength(1);
  },
);

test("the deployer that decides killed: another one does, and what was accepted goes on", async () => {
  const { deploy, S, said } = await webService(world);
  let before: string[] = [];
  await eventually("one decides", async () => {
    before = await elected();
    return before.length === 1;
  });
  const version = await deploy({ "package.json": "{}", "server.js": saying("by another one") });
  await killDeployers(before);
  await eventually("another one decides", async () => {
    const now = await elected();
    return now.length === 1 && now[0] !== before[0];
  });
  await eventually("a deployer answers", async () => (await world.call("GET", S)).status === 200);
  expect(await settled(world, S, version)).toMatchObject({ status: "applied", errors: [] });
  await eventually("it answers", async () => (await said()) === "by another one");
});

const deployers = () => ({
  namespace: inject("platform")!.namespace,
  labels: "app.kubernetes.io/component=deployer",
});

/** Returns the names of the deployers whose log says that they are the elected one. */
async function elected(): Promise<string[]> {
  const { call } = await connectKubectl();
  const { items } = await kube.list(Pod, deployers());
  const names = items.map(({ metadata }) => metadata?.name ?? "");
  const logs = names.map((name) => call("logs", "-n", deployers().namespace, name).catch(() => ""));
  const said = (log: string) => log.match(/this process (was elected|is not the elected one)/g)?.at(-1) ?? "";
  const last = (await Promise.all(logs)).map(said);
  return names.filter((_, index) => last[index]?.includes("was elected"));
}

/** Kills deployer pods at once, all or those of these names, as the loss of a node does; waits for their replacements. */
async function killDeployers(names?: string[]): Promise<void> {
  const which = deployers();
  const { namespace } = which;
  const all = (await kube.list(Pod, which)).items.map(({ metadata }) => metadata!);
  const killed = all.filter(({ name = "" }) => names?.includes(name) ?? true);
  expect(killed.length).toBeGreaterThan(0);
  await Promise.all(
    killed.map(({ name = "" }) => kube.remove(Pod, name, namespace, { gracePeriodSeconds: 0 })),
  );
  await eventually("others are ready", async () => {
    const { items } = await kube.list(Pod, which);
    const ready = (pod: V1Pod) =>
      pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
    const gone = killed.every(({ uid }) => items.every(({ metadata }) => metadata!.uid !== uid));
    return gone && items.length >= all.length && items.every(ready);
  });
}
