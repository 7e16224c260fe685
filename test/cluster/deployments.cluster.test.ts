import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Job, Namespace, Pod } from "../../services/deployer/kube/kinds.ts";
import { label, managed, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { open, settled } from "../support/apps.ts";
import { refusal } from "../support/door.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";
import { webService as makeWebService, podsOf, type Service, saying } from "./web-service.ts";

let world: Platform;
let kube: Kube;
let nodeImage: string;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
  nodeImage = inject("clusterImages").node;
});

afterAll(() => world?.stop());

const webService = () => makeWebService(world);

const jobsOf = async (serviceId: string) =>
  (await kube.list(Job, { labels: selector({ [label("service")]: serviceId }) })).items;

test("a Dockerfile with RUN is built, and its image runs pinned by digest", async () => {
  const { live, said, id, log } = await webService();
  const version = await live({
    Dockerfile: `FROM ${inject("clusterImages").nodeToBuildFrom}\nWORKDIR /app\nCOPY . .\nRUN echo "made while building" > made.txt && echo "RUN was here"\nCMD ["node", "server.js"]\n`,
    "server.js": `require("node:http").createServer((_, r) => r.end(require("node:fs").readFileSync("made.txt"))).listen(process.env.PORT);`,
  });
  expect(await said()).toBe("made while building\n");
  expect(await log(version)).toContain("RUN was here");
  const apps = (await podsOf(kube, id)).filter(({ metadata }) => metadata!.labels![label("kind")] === "app");
  const images = apps.flatMap((pod) => pod.spec!.containers.map(({ image }) => image));
  expect(images).not.toEqual([]);
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

test("an image is deployed by the digest of its tag; one that no registry has is told, and the old one serves", async () => {
  const { S, E, said } = await webService();
  await world.must("PATCH", S, { config: { command: `node -e '${saying("from an image")}'` } });
  await world.must("POST", `${S}/deploy`, { image: nodeImage });
  const applied = await settled(world, S, 1);
  expect(applied).toMatchObject({ status: "applied", warnings: [] });
  expect(applied.image!.split("@")).toEqual([nodeImage, expect.stringMatching(/^sha256:/)]);
  expect(await said()).toBe("from an image");
  await world.must("POST", `${S}/deploy`, { image: nodeImage.replace(/:[^:/]+$/, ":never-pushed") });
  expect(await settled(world, S, 2)).toMatchObject({
    status: "failed",
    errors: [{ stage: "apply", code: "image_not_found" }],
  });
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
    return namespaces.length + (await podsOf(kube, id)).length + (await jobsOf(id)).length === 0;
  });
});

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
