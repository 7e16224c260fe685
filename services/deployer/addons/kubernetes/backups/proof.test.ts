import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { createLog } from "../../../../kit/log.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Job, Namespace, Pod } from "../../../kube/kinds.ts";
import type { AddonType } from "../../../terms/services.ts";
import type { Addon } from "../../port.ts";
import { createKubernetesBackups } from "./adapter.ts";
import { type Copy, copyJob, copySecret } from "./copy-job.ts";

// How a backup is restored to the side on a cluster. What its scripts do there is shown by test/cluster.

const namespace = "berth-env-a";
const url = "https://objects.example.com/one?signature=secret";
const addon = (type: AddonType): Addon => ({
  ...{ serviceId: "svc_a", accountId: "acc_a", projectId: "prj_a", environmentId: "env_A" },
  ...{ name: "store", type, size: "small", generation: 4 },
});
const proof = (type: AddonType): Copy => ({
  ...{ addon: addon(type), password: "", serverImage: "example/server:1", scratch: "5Gi" },
  request: { fetch: url, to: type === "postgres" ? "pipe" : "scratch" },
});
const options = { namespacePrefix: "berth", user: 999, copyImage: "example/platform:1" } as const;

test.each(["postgres", "redis"] as const)("a proof of %s has no way to the addon, and limits", (type) => {
  const { metadata, spec } = copyJob(proof(type), options);
  expect(metadata).toMatchObject({ name: "svc-a-proof", namespace });
  for (const labels of [metadata.labels, spec!.template.metadata!.labels]) {
    expect(labels).toMatchObject({ "berth.dev/kind": "copy", "berth.dev/proof": "svc_a" });
    expect(labels).not.toHaveProperty("berth.dev/service");
    // A backup of the addon, which may be made meanwhile, does not take it for its own.
    expect(labels).not.toHaveProperty("berth.dev/copy");
  }
  const { containers, initContainers = [], volumes } = spec!.template.spec!;
  expect(volumes).toContainEqual({ name: "scratch", emptyDir: { sizeLimit: "5Gi" } });
  expect(volumes!.some(({ persistentVolumeClaim }) => persistentVolumeClaim)).toBe(false);
  for (const { env, resources, securityContext } of [...initContainers, ...containers]) {
    expect(JSON.stringify(env)).not.toMatch(/secretKeyRef|PGHOST|PGPASSWORD/);
    expect(Object.keys(resources!.limits!).sort()).toEqual(["cpu", "ephemeral-storage", "memory"]);
    expect(securityContext).toMatchObject({ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false });
  }
  const database = containers.find(({ name }) => name === "database")!;
  expect(database).toMatchObject({ image: "example/server:1" });
  // The signed URL is with the program that fetches.
  expect(database.volumeMounts!.map(({ name }) => name)).not.toContain("request");
  expect(JSON.stringify(spec)).not.toContain("signature");
  const { data } = copySecret(proof(type), options, { metadata: { name: "svc-a-proof", uid: "u" } } as V1Job);
  expect(Object.keys(data!)).toEqual(["request", "passwd"]);
});

let api: KubeApi;
beforeEach(async () => {
  api = await startKubeApi();
  api.store.put(Namespace, { metadata: { name: namespace } });
});
afterEach(() => api?.stop());

const scope = ({ apiVersion, plural }: { apiVersion: string; plural: string }) => ({
  ...{ apiVersion, plural, namespace },
});
const jobs = () => api.store.list(scope(Job), {}).map(([, job]) => job as unknown as V1Job);

function backups() {
  const store = { presignGet: async () => url } as never;
  return createKubernetesBackups({
    ...{ kube: connectKube(api.config), namespacePrefix: "berth", user: 999 },
    ...{ log: createLog("deployer", "silent"), noArchive: "There is none." },
    copies: { image: "example/platform:1", store },
    serverOf: async () => ({ image: "example/server:1", storage: "5Gi" }),
    restart: () => Promise.reject(new Error("its server is left alone")),
  });
}

/** What the cluster does: the pod of the Job ends, with what its containers report. */
async function end(database: { exitCode: number; message: string }) {
  const job = await eventually("there is a Job", async () => jobs()[0]);
  const ended = { exitCode: database.exitCode === 0 ? 0 : 1, message: '{"fetched":true}' };
  const containerStatuses = [
    { name: "copy", state: { terminated: ended } },
    { name: "database", state: { terminated: database } },
  ];
  const { labels } = job.spec!.template.metadata!;
  const pod = { metadata: { name: "svc-a-proof-1", namespace, labels }, status: { containerStatuses } };
  api.store.put(scope(Pod), pod as Partial<V1Pod> as never);
  const conditions = [{ type: database.exitCode === 0 ? "Complete" : "Failed", status: "True" }];
  api.store.put(scope(Job), { ...job, status: { conditions } } as never);
  await eventually("its Job is removed", async () => jobs().length === 0);
  api.store.remove(scope(Pod), "svc-a-proof-1");
}

test("a proof on a cluster says how many rows were read, and its Job and Secret go", async () => {
  const proving = backups().prove(addon("postgres"), "backups/one", new AbortController().signal);
  await end({ exitCode: 0, message: "42\n" });
  expect(await proving).toEqual({ counted: 42 });
});

test("a backup that its server cannot read fails its proof on a cluster for good, and its Job goes", async () => {
  const proving = backups().prove(addon("redis"), "backups/one", new AbortController().signal);
  const failing = expect(proving).rejects.toThrow("The redis server cannot read this backup");
  await end({ exitCode: 1, message: "unreadable\n" });
  await failing;
});

test("what a killed deployer left of a proof is removed by who takes it next, and by who finds its addon gone", async () => {
  const left = { metadata: { name: "svc-a-proof", namespace, labels: { "berth.dev/proof": "svc_a" } } };
  api.store.put(scope(Job), left as never);
  await backups().removeProof({ serviceId: "svc_a", environmentId: "env_A", type: "redis" });
  expect(jobs()).toEqual([]);
  api.store.put(scope(Job), { ...left, spec: { left: true } } as never);
  const stop = new AbortController();
  const proving = backups().prove(addon("redis"), "backups/one", stop.signal);
  const stopped = expect(proving).rejects.toThrow();
  await eventually("it has a Job of its own", async () => jobs()[0]?.spec?.template !== undefined);
  stop.abort();
  await stopped;
  await eventually("that is removed too", async () => jobs().length === 0);
});
