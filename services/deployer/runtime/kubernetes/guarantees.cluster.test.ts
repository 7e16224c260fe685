import { setTimeout as delay } from "node:timers/promises";
import { CoreV1Api, KubernetesObjectApi } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { Deployment, HTTPRoute, Ingress, Namespace, Pod, Secret, Service } from "../../kube/kinds.ts";
import { namespaceOf } from "../../kube/names.ts";
import type { Release } from "../port.ts";
import { createEnvironments } from "./namespace/namespaces.ts";
import { contains } from "./observe/drift/drift.ts";
import type { KubernetesRuntimeOptions } from "./options.ts";
import { readState, withAnnotations } from "./release/release-annotations.ts";
import { createKubernetesRuntime } from "./runtime.ts";
import { type Cluster, listenAt, openCluster, reaching } from "./testing.ts";
import { installHttpRoutes } from "./testing-gateway-api.ts";

let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster("more");
});
afterAll(() => cluster?.close());

const namespaceFor = (environmentId: string) => namespaceOf(cluster.options.namespacePrefix, environmentId);
const make = (script: string, changes: Partial<Release> = {}) => releaseOf(cluster.artifact, script, changes);
const status = (one: Release) => cluster.runtime.status(one.serviceId);

async function run(one: Release) {
  await cluster.runtime.apply(one);
  return statusOf(cluster.runtime, one.serviceId, isRunning);
}

async function podIp({ environmentId, serviceId }: Release): Promise<string> {
  const labels = `berth.dev/service=${serviceId}`;
  const { items } = await cluster.kube.list(Pod, { namespace: namespaceFor(environmentId), labels });
  return items[0]?.status?.podIP ?? "";
}

test("apps reach their neighbours by name, and the internet but for closed ports and other DNS, and nothing else", async () => {
  const [there, here] = [{ environmentId: "env_2" }, { environmentId: "env_3" }];
  const other = make(answeringApp, there);
  const neighbour = make(answeringApp, here);
  await Promise.all([run(other), run(neighbour)]);
  const far = await podIp(other);
  const [free = 0, ...closed] = await listenAt(cluster.outside, [0, 25, 587, 53]);
  const targets = [
    `${neighbour.names.service} 80`,
    `${neighbour.names.service} 8080`,
    `${far} 8080`,
    `${other.names.service}.${namespaceFor("env_2")}.svc.cluster.local 8080`,
    "kubernetes.default.svc.cluster.local 443",
    ...[free, ...closed].map((port) => `${cluster.outside} ${port}`),
  ];
  const prober = make(reaching(targets), { ...here, type: "worker" });
  await run(prober);
  // A new pod, and who may reach it, is known to the network only after a moment: then it stays so.
  const [yes, no] = ["reached", "not reached"];
  // 587 is closed but for the plan of this environment's account. That names are found shows that DNS is asked.
  const wanted = JSON.stringify([yes, yes, no, no, no, yes, no, yes, no]);
  await eventually("the limits are applied", async () => {
    // As in a process that watches nothing because another one is the leader.
    const { lines } = await createKubernetesRuntime(
      cluster.options,
      createEnvironments(cluster.options),
    ).logs({
      serviceId: prober.serviceId,
      environmentId: prober.environmentId,
      limit: 3,
    });
    return lines.length === 3 && lines.every(({ message }) => message === wanted);
  });

  // As the deployer makes it, but for its size.
  const deployment = await cluster.kube.get(Deployment, neighbour.names.service, namespaceFor("env_3"));
  const pod = async (memory: string, storage = "2Gi") => {
    const { metadata, spec } = structuredClone(deployment!.spec!.template);
    spec!.containers[0]!.resources!.limits = { cpu: "1", memory, "ephemeral-storage": storage };
    const body = { metadata: { ...metadata, name: "beyond" }, spec };
    const api = cluster.kube.config.makeApiClient(CoreV1Api);
    await api.createNamespacedPod({ namespace: namespaceFor("env_3"), body, dryRun: "All" });
  };
  await pod("1Gi");
  await expect(pod("17Gi")).rejects.toThrow("exceeded quota: berth");
  await expect(pod("1Gi", "17Gi")).rejects.toThrow("exceeded quota: berth");
});

test("an app that writes more files than its size has room for is replaced, and its status says why", async () => {
  const filling = `
    const { createWriteStream } = require("node:fs");
    const file = createWriteStream("/tmp/full");
    const piece = Buffer.alloc(8 << 20);
    const fill = (at) => at < 160 && file.write(piece, () => fill(at + 1));
    require("node:http").createServer((_, response) => response.end()).listen(process.env.PORT, () => fill(0));`;
  const one = make(filling, { environmentId: "env_16" });
  await cluster.runtime.apply(one);
  await statusOf(cluster.runtime, one.serviceId, ({ message }) => message?.includes("local disk") === true);
});

test("a release's variables are in a Secret of its environment alone, and the one before goes when unused", async () => {
  const one = make(answeringApp, { environmentId: "env_4", env: { ANSWER: "four" } });
  await run(one);
  const secrets = async () =>
    (await cluster.kube.list(Secret, { namespace: namespaceFor("env_4") })).items.map(
      ({ metadata }) => metadata?.name,
    );
  expect(await secrets()).toEqual([`${one.names.service}-v1-r1`]);
  const deployments = await cluster.kube.list(Deployment, { namespace: namespaceFor("env_4") });
  expect(JSON.stringify(deployments.items)).not.toContain("four");
  await cluster.runtime.apply({ ...one, revision: 2 });
  await statusOf(cluster.runtime, one.serviceId, (now) => isRunning(now) && now.revision === 2);
  await cluster.runtime.apply({ ...one, version: 2, revision: 3 });
  await eventually(
    "the first Secret is gone",
    async () => !(await secrets()).includes(`${one.names.service}-v1-r1`),
  );
  await statusOf(cluster.runtime, one.serviceId, (now) => isRunning(now) && now.version === 2);
});

test("an image that no registry has is reported, and the release before it serves", async () => {
  const one = make(answeringApp, { environmentId: "env_5" });
  await run(one);
  const missing = one.artifact.replace(/:[^:/]+$/, ":never-pushed");
  await cluster.runtime.apply({ ...one, version: 2, artifact: missing });
  const seen = await statusOf(cluster.runtime, one.serviceId, (now) => now.state === "degraded");
  expect(seen).toMatchObject({ version: 2, reason: "image_pull_failed", serving: { version: 1 } });
  expect(seen.message).toContain("never-pushed");
  expect((await cluster.fetch(seen.url!, "/")).body).toBe("one");
});

test("what somebody removes or changes is reported as drift, and an apply restores it", async () => {
  const one = make(answeringApp, { environmentId: "env_6", env: { GREETING: "hello" } });
  const first = await run(one);
  const namespace = namespaceFor("env_6");
  const { service: name } = one.names;
  const secret = await cluster.kube.get(Secret, `${name}-v1-r1`, namespace);
  const changes = [
    () => cluster.kube.remove(Service, name, namespace),
    () => cluster.kube.remove(Ingress, name, namespace),
    () => cluster.kube.remove(Secret, `${name}-v1-r1`, namespace),
    async () => {
      const metadata = { name: `${name}-v1-r1`, namespace, labels: secret!.metadata!.labels };
      await cluster.kube.remove(Secret, metadata.name, namespace);
      const another = { apiVersion: "v1", kind: "Secret", metadata, stringData: { ANOTHER: "value" } };
      await KubernetesObjectApi.makeApiClient(cluster.kube.config).create(another);
    },
    () =>
      cluster.kube.merge(Deployment, {
        metadata: { name, namespace },
        spec: { progressDeadlineSeconds: 77 },
      } as never),
  ];
  for (const change of changes) {
    await change();
    await statusOf(cluster.runtime, one.serviceId, (now) => now.drifted === true);
    await cluster.runtime.apply(one);
    await statusOf(cluster.runtime, one.serviceId, (now) => isRunning(now) && !now.drifted);
    await eventually("it answers", async () => (await cluster.fetch(first.url!, "/")).status === 200);
  }
  expect((await cluster.kube.get(Secret, `${name}-v1-r1`, namespace))?.data).toEqual(secret!.data);
});

test("a service moves from an Ingress to an HTTPRoute and back, and nothing of the other is left", async () => {
  const { kube, options } = cluster;
  const forget = await installHttpRoutes(kube);
  const one = make(answeringApp, { environmentId: "env_15" });
  const { url } = await run(one);
  const [name, namespace] = [one.names.service, namespaceFor("env_15")];
  const found = async () => {
    const [ingress, route] = [kube.get(Ingress, name, namespace), kube.get(HTTPRoute, name, namespace)];
    return [await ingress, await route].flatMap((object) => object?.kind ?? []);
  };
  const parentRefs = [{ name: "berth", namespace: options.claimsNamespace }];
  const httpRoute = { enabled: true, parentRefs, annotations: {}, timeouts: { request: "10s" } };
  const move = async (changes: Partial<KubernetesRuntimeOptions>) => {
    const deployer = await cluster.another(changes);
    await statusOf(deployer, one.serviceId, (now) => now.drifted === true);
    await deployer.apply(one);
    expect(await statusOf(deployer, one.serviceId, isRunning)).toMatchObject({ url });
    await eventually("it answers", async () => (await cluster.fetch(url!, "/")).status === 200);
  };
  await move({ ingress: { ...options.ingress, enabled: false }, httpRoute });
  expect(await found()).toEqual(["HTTPRoute"]);
  const { manifests } = readState((await kube.get(Deployment, name, namespace))!)!;
  const route = await kube.get(HTTPRoute, name, namespace);
  expect(contains(route?.spec, manifests.httpRoute?.spec)).toBe(true);
  await move({ httpRoute: { ...httpRoute, enabled: false } });
  expect(await found()).toEqual(["Ingress"]);
  await forget();
});

test("what was seen of a service before its removal does not bring it back", async () => {
  const one = make(answeringApp, { environmentId: "env_6", replicas: 0 });
  await cluster.runtime.apply(one);
  const [name, namespace] = [one.names.service, namespaceFor("env_6")];
  const seen = (await cluster.kube.get(Deployment, name, namespace))!;
  await cluster.runtime.remove(one.serviceId);
  const late = cluster.kube.apply(Deployment, withAnnotations(seen, readState(seen)!));
  await expect(late).rejects.toMatchObject({ code: 409 });
  expect(await cluster.kube.get(Deployment, name, namespace)).toBeUndefined();
});

test("new versions and revisions cost no request under a steady trickle of them", async () => {
  const one = make(answeringApp, { environmentId: "env_7", replicas: 2 });
  const { url = "" } = await run(one);
  await eventually("it answers", async () => (await cluster.fetch(url, "/")).status === 200);
  const failed: string[] = [];
  let [going, asked] = [true, 0];
  const trickle = async () => {
    while (going) {
      asked++;
      const answer = await cluster.fetch(url, "/").catch((error) => ({ status: 0, body: String(error) }));
      if (answer.status !== 200)
        failed.push(`${new Date().toISOString()} ${answer.status} ${answer.body.trim()}`);
      await delay(25);
    }
  };
  const asking = [trickle(), trickle()];
  for (const [version, revision] of [
    [1, 2],
    [2, 3],
    [3, 4],
  ] as const) {
    await cluster.runtime.apply({ ...one, version, revision, env: { ...one.env, ANSWER: `${version}` } });
    await statusOf(cluster.runtime, one.serviceId, (now) => isRunning(now) && now.revision === revision);
  }
  // Until the last replica of before is gone.
  await eventually("only the new ones are left", async () => {
    const labels = `berth.dev/service=${one.serviceId}`;
    return (await cluster.kube.list(Pod, { namespace: namespaceFor("env_7"), labels })).items.length === 2;
  });
  going = false;
  await Promise.all(asking);
  expect(failed).toEqual([]);
  expect(asked).toBeGreaterThan(100);
});

test("another process sees the same, and of two that apply at once the newer version wins", async () => {
  const one = make(answeringApp, { environmentId: "env_8" });
  const seen = await run(one);
  const other = await cluster.another();
  expect(await other.status(one.serviceId)).toEqual(seen);
  const all = await other.list();
  expect(all.find((found) => found.serviceId === one.serviceId)).toEqual(seen);
  for (let round = 1; round <= 5; round++) {
    const [older, newer] = [
      { ...one, version: 2 * round },
      { ...one, version: 2 * round + 1 },
    ];
    const [late] = await Promise.allSettled([other.apply(older), cluster.runtime.apply(newer)]);
    if (late.status === "rejected") expect(late.reason).toMatchObject({ code: "release_superseded" });
    expect(await status(one)).toMatchObject({ version: newer.version });
  }
  await statusOf(other, one.serviceId, (now) => isRunning(now) && now.version === 11);
});

test("two processes that make a service first agree on the newer version too", async () => {
  const other = await cluster.another();
  for (let round = 0; round < 3; round++) {
    const one = make(answeringApp, { environmentId: "env_9" });
    await Promise.allSettled([cluster.runtime.apply({ ...one, version: 2 }), other.apply(one)]);
    expect(await status(one)).toMatchObject({ version: 2 });
    await cluster.runtime.remove(one.serviceId);
  }
});

test("services of the same names in two environments have hosts of their own", async () => {
  const one = make(answeringApp, { environmentId: "env_10" });
  const twin = make(answeringApp, { environmentId: "env_11", names: one.names });
  const [first, second] = [await run(one), await run(twin)];
  expect(first.url).not.toBe(second.url);
  expect(second.url).toMatch(/-[0-9a-f]{8}\./);
  await cluster.runtime.remove(one.serviceId);
  const heir = make(answeringApp, { environmentId: "env_10", names: one.names });
  expect((await run(heir)).url).toBe(first.url);
});

test("an environment that is given up leaves no namespace, and can come back", async () => {
  const one = make(answeringApp, { environmentId: "env_12" });
  await run(one);
  expect(await cluster.runtime.environments?.()).toContain("env_12");
  await cluster.runtime.removeEnvironment?.("env_12");
  await eventually(
    "its namespace is gone",
    async () => !(await cluster.kube.get(Namespace, namespaceFor("env_12"))),
  );
  await eventually("nothing of it is listed", async () => {
    const listed = (await cluster.runtime.list()).map((found) => found.serviceId);
    return !listed.includes(one.serviceId) && !(await cluster.runtime.environments?.())?.includes("env_12");
  });
  await run(one);
});

test("a namespace of another installation with the same prefix is left alone", async () => {
  const claimsNamespace = `${cluster.options.claimsNamespace}-other`;
  const stranger = await cluster.another({ claimsNamespace, compareMs: 60_000 });
  const one = make(answeringApp, { environmentId: "env_13" });
  await run(one);
  expect(await stranger.environments?.()).not.toContain("env_13");
  expect(await stranger.status(one.serviceId)).toBeUndefined();
  await stranger.removeEnvironment?.("env_13");
  await expect(stranger.apply(one)).rejects.toThrow("somebody else");
  expect(await status(one)).toMatchObject({ state: "running" });
});
