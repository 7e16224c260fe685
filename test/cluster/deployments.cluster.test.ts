import { randomBytes } from "node:crypto";
import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Job, Namespace, Pod } from "../../services/deployer/kube/kinds.ts";
import { label, managed, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { refusal } from "../support/door.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";

let world: Platform;
let kube: Kube;
let nodeImage: string;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
  nodeImage = inject("clusterImages").node;
});

afterAll(() => world?.stop());

type Service = { id: string; status: string; url: string; liveVersion?: number };
type Files = Record<string, string>;

const pack = (files: Files) => archiveOf(Object.entries(files).map(([name, content]) => ({ name, content })));

/** Returns an app that answers with these words and its variable WORD. */
const saying = (words: string) =>
  `require("node:http").createServer((_, response) => response.end(${JSON.stringify(words)} + (process.env.WORD ?? ""))).listen(process.env.PORT);`;

async function webService() {
  const { E, environmentId, S: service, P } = await world.environment();
  const S = service("web");
  const made = await world.must<Service>("POST", `${E}/services`, { name: "web", type: "web" });
  const deploy = async (files: Files) => (await deployArchive(world, S, await pack(files))).version;
  const shown = () => world.must<Service>("GET", S);
  const said = async () => (await open((await shown()).url)).body;
  const at = (version: number) => world.must<Deployment>("GET", `${S}/deployments/${version}`);
  const log = async (version: number) =>
    (await world.must<{ logs: string }>("GET", `${S}/deployments/${version}/build-logs`)).logs;
  const live = async (files: Files) => {
    const version = await deploy(files);
    expect(await settled(world, S, version)).toMatchObject({ status: "applied", errors: [] });
    return version;
  };
  return { P, E, S, id: made.id, environmentId, deploy, live, shown, said, at, log };
}

const jobsOf = async (serviceId: string) =>
  (await kube.list(Job, { labels: selector({ [label("service")]: serviceId }) })).items;
const podsOf = async (serviceId: string) =>
  (await kube.list(Pod, { labels: selector({ [label("service")]: serviceId }) })).items;

test("a Dockerfile with RUN is built, and its image runs pinned by digest", async () => {
  const { live, said, id, log } = await webService();
  const version = await live({
    Dockerfile: `FROM ${inject("clusterImages").nodeToBuildFrom}\nWORKDIR /app\nCOPY . .\nRUN echo "made while building" > made.txt && echo "RUN was here"\nCMD ["node", "server.js"]\n`,
    "server.js": `require("node:http").createServer((_, r) => r.end(require("node:fs").readFileSync("made.txt"))).listen(process.env.PORT);`,
  });
  expect(await said()).toBe("made while building\n");
  expect(await log(version)).toContain("RUN was here");
  const images = (await podsOf(id)).flatMap((pod) => pod.spec!.containers.map(({ image }) => image));
  expect(images.filter((image) => !/@sha256:[0-9a-f]{64}$/.test(image ?? ""))).toEqual([]);
});

test("a build that fails says at which command, in the deployment and in the log, and leaves what runs alone", async () => {
  const { live, deploy, said, shown, at, log, S } = await webService();
  await live({ "package.json": "{}", "server.js": saying("still here") });
  const version = await deploy({
    Dockerfile: `FROM ${inject("clusterImages").nodeToBuildFrom}\nRUN echo about to fail; exit 23\n`,
  });
  await settled(world, S, version);
  expect(await at(version)).toMatchObject({ status: "failed", errors: [{ stage: "build" }] });
  expect(await log(version)).toContain("about to fail");
  expect([await said(), (await shown()).status]).toEqual(["still here", "running"]);
});

test("a newer deployment ends the build of the older, whose Job is gone and whose log is kept", async () => {
  const { deploy, live, said, at, log, id } = await webService();
  const first = await deploy({
    Dockerfile: `FROM ${inject("clusterImages").nodeToBuildFrom}\nRUN echo waiting; sleep 1000\n`,
  });
  await eventually("the build waits", async () => (await log(first)).includes("waiting"));
  const second = await live({ "package.json": "{}", "server.js": saying("the newer") });
  expect(second).toBe(2);
  expect(await at(first)).toMatchObject({ status: "superseded" });
  expect(await log(first)).toContain("waiting");
  expect(await said()).toBe("the newer");
  await eventually("no Job of it is at work", async () =>
    (await jobsOf(id)).every((job) => !job.status?.active),
  );
});

test("a build that never ends is ended at its deadline, and what runs stays", async () => {
  const { live, deploy, said, at, log, id, S } = await webService();
  await live({ "package.json": "{}", "server.js": saying("still here") });
  const version = await deploy({
    Dockerfile: `FROM ${inject("clusterImages").nodeToBuildFrom}\nRUN echo waiting; sleep 100000\n`,
  });
  await eventually("the build waits", async () => (await log(version)).includes("waiting"));
  // No plan lets a build take longer than 30 minutes.
  await passMinutes(id, 31);
  await settled(world, S, version);
  expect(await at(version)).toMatchObject({
    status: "failed",
    errors: [{ stage: "build", code: "build_timeout" }],
  });
  expect(await log(version)).toContain("waiting");
  expect(await said()).toBe("still here");
  await eventually("no Job of it is at work", async () =>
    (await jobsOf(id)).every((job) => !job.status?.active),
  );
});

test("a release that crashes leaves the one before it serving, and says its last words", async () => {
  const { live, deploy, said, shown, at } = await webService();
  await live({ "package.json": "{}", "server.js": saying("the old one") });
  const version = await deploy({
    "package.json": "{}",
    "server.js": `console.error("no settings, no service"); process.exit(7);`,
  });
  await eventually("the service is degraded", async () => (await shown()).status === "degraded");
  expect(await said()).toBe("the old one");
  const told = await eventually("the deployment says why", async () => {
    const { warnings } = await at(version);
    return warnings.find(({ stage }) => stage === "rollout");
  });
  expect(told.message).toContain("no settings, no service");
  await live({ "package.json": "{}", "server.js": saying("mended") });
  await eventually("the mended one answers", async () => (await said()) === "mended");
});

test("an image is deployed as it is; one that no registry has is told, and the old one serves", async () => {
  const { S, E, said, at, shown } = await webService();
  await world.must("PATCH", S, { config: { command: `node -e '${saying("from an image")}'` } });
  await world.must("POST", `${S}/deploy`, { image: nodeImage });
  expect(await settled(world, S, 1)).toMatchObject({ status: "applied", image: nodeImage });
  expect(await said()).toBe("from an image");
  await world.must("POST", `${S}/deploy`, { image: nodeImage.replace(/:[^:/]+$/, ":never-pushed") });
  await eventually("the service is degraded", async () => (await shown()).status === "degraded");
  const told = await eventually("the deployment says why", async () => (await at(2)).warnings[0]);
  expect(told.message).toMatch(/image/i);
  expect(await said()).toBe("from an image");
  await world.must("DELETE", S, { confirmImpact: true });
  await eventually("it is gone", async () => (await world.call("GET", S)).status === 404);
  expect((await world.must<{ data: object[] }>("GET", `${E}/services`)).data).toEqual([]);
});

test("what one account built no other account can use, and its other services can, as long as they do", async () => {
  const { live, at, E, S } = await webService();
  const { image } = await at(await live({ "package.json": "{}", "server.js": saying("built here") }));
  const handle = `second-${randomBytes(4).toString("hex")}`;
  const { id } = await world.must<{ id: string }>("POST", "/accounts", { handle });
  const projects = `/accounts/${id}/projects`;
  const project = await world.must<{ id: string }>("POST", projects, { name: "shop" });
  const environments = `${projects}/${project.id}/environments`;
  const environment = await world.must<{ id: string }>("POST", environments, { name: "production" });
  const theirs = `${environments}/${environment.id}/services`;
  const source = { image };
  expect(refusal(await world.call("POST", theirs, { name: "copy", type: "web", source }))).toBe(
    "422 image_not_allowed",
  );
  await world.must("POST", theirs, { name: "copy", type: "web" });
  expect(refusal(await world.call("POST", `${theirs}/copy/deploy`, { image }))).toBe("422 image_not_allowed");

  const copy = `${E}/services/copy`;
  await world.must("POST", `${E}/services`, { name: "copy", type: "web", source });
  await world.must("POST", `${copy}/deploy`, {});
  expect(await settled(world, copy, 1)).toMatchObject({ status: "applied", image });
  await world.must("DELETE", S, { confirmImpact: true });
  await eventually("its builder is gone", async () => (await world.call("GET", S)).status === 404);
  expect((await open((await world.must<Service>("GET", copy)).url)).body).toBe("built here");
  expect(await world.must("POST", `${copy}/deploy`, { dryRun: true })).toMatchObject({ eligible: true });
});

test("a deleted project leaves no namespace, pod or Job in the cluster", async () => {
  const { P, live, id, environmentId } = await webService();
  await live({ "package.json": "{}", "server.js": saying("soon gone") });
  const labels = selector({ ...managed, [label("environment")]: environmentId });
  expect((await kube.list(Namespace, { labels })).items).toHaveLength(1);
  await world.must("DELETE", P, { confirmImpact: true });
  await eventually("nothing of it is left", async () => {
    const namespaces = (await kube.list(Namespace, { labels })).items;
    return namespaces.length + (await podsOf(id)).length + (await jobsOf(id)).length === 0;
  });
});

const states = ["queued", "building", "built", "applied"] as const;
test.each(states)(
  "the deployer killed while a deployment is %s: it ends applied, once, by itself",
  async (state) => {
    const { deploy, at, S, said, id, log } = await webService();
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
    const running = (await podsOf(id)).filter((pod) => pod.status?.phase === "Running");
    expect(running).toHaveLength(1);
  },
);

/** Moves the start of a service's build into the past, so that its deadline passes. */
async function passMinutes(serviceId: string, minutes: number): Promise<void> {
  const { namespace } = inject("platform")!;
  const labels = "app.kubernetes.io/component=postgres";
  const [database] = (await kube.list(Pod, { namespace, labels })).items;
  const earlier = `with earlier as (update deployer.deployments
      set build_started_at = build_started_at - interval '${minutes} minutes'
      where service_id = '${serviceId}' and status = 'building')
    update deployer.work set next_at = now() where service_id = '${serviceId}'`;
  const psql = `PGPASSWORD=$(cat /etc/berth-password/password) psql -qXh 127.0.0.1 -U postgres -v ON_ERROR_STOP=1 berth -c "$0"`;
  const { call } = await connectKubectl();
  await call("exec", "-n", namespace, database!.metadata!.name!, "--", "sh", "-c", psql, earlier);
}

/** Kills all deployer pods at once, as the loss of a node does, and waits for their replacements. */
async function killDeployers(): Promise<void> {
  const { namespace } = inject("platform")!;
  const which = { namespace, labels: "app.kubernetes.io/component=deployer" };
  const killed = (await kube.list(Pod, which)).items.map(({ metadata }) => metadata!);
  expect(killed.length).toBeGreaterThan(0);
  await Promise.all(
    killed.map(({ name = "" }) => kube.remove(Pod, name, namespace, { gracePeriodSeconds: 0 })),
  );
  await eventually("others are ready", async () => {
    const { items } = await kube.list(Pod, which);
    const ready = (pod: V1Pod) =>
      pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
    const gone = killed.every(({ uid }) => items.every(({ metadata }) => metadata!.uid !== uid));
    return gone && items.length >= killed.length && items.every(ready);
  });
}
