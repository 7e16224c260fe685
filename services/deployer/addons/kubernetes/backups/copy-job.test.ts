import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { BackupRefusal } from "../../../terms/backup-refusal.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon } from "../../port.ts";
import { type Copy, copyJob, copySecret } from "./copy-job.ts";
import { partSizes } from "./copy-request.ts";
import { endOf } from "./run-copy.ts";

const password = newPassword();
const addon = (type: Addon["type"]): Addon => ({
  ...{ serviceId: "svc_a", accountId: "acc_a", projectId: "prj_a", environmentId: "env_A" },
  ...{ name: "store", type, size: "small", generation: 4 },
});
const copy = (type: Addon["type"], request: Copy["request"], mark?: string): Copy => ({
  ...{ addon: addon(type), password, serverImage: "example/server:1", request, mark },
});
const url = "https://objects.example.com/one?signature=secret";
const copies = [
  copy("postgres", { send: [{ url, bytes: 1 }] }),
  copy("postgres", { fetch: url, to: "pipe" }),
  copy("redis", { send: [{ url, bytes: 1 }], redis: { host: "store", port: 6379 } }),
  copy("redis", { fetch: url, to: "volume" }, "0123456789ab"),
];
const options = { namespacePrefix: "berth", user: 999, copyImage: "example/platform:1" } as const;
const podOf = (one: Copy) => copyJob(one, options).spec!.template.spec!;
const containersOf = (one: Copy) => [...(podOf(one).initContainers ?? []), ...podOf(one).containers];

test("no Service and no policy of an addon takes the pod of a copy for its server", () => {
  for (const one of copies) {
    const { metadata, spec } = copyJob(one, options);
    expect(metadata).toMatchObject({ name: "svc-a-copy", namespace: "berth-env-a" });
    for (const labels of [metadata.labels, spec!.template.metadata!.labels])
      expect(labels).toMatchObject({ "berth.dev/kind": "copy", "berth.dev/copy": "svc_a" });
    expect(spec!.template.metadata!.labels).not.toHaveProperty("berth.dev/service");
  }
});

test("the pod of a copy passes Pod Security restricted, has limits, and mounts no token", () => {
  for (const one of copies) {
    expect(podOf(one)).toMatchObject({
      ...{ automountServiceAccountToken: false, restartPolicy: "Never" },
      securityContext: { runAsNonRoot: true, runAsUser: 999, seccompProfile: { type: "RuntimeDefault" } },
    });
    for (const { securityContext, resources } of containersOf(one)) {
      expect(securityContext).toEqual({
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
      });
      expect(Object.keys(resources!.limits!).sort()).toEqual(["cpu", "ephemeral-storage", "memory"]);
    }
  }
});

test("password and signed URLs are in the Secret alone, and each container has only what it needs", () => {
  const secrets = (one: Copy) =>
    Object.fromEntries(
      containersOf(one).map(({ name, env = [], volumeMounts = [] }) => [
        name,
        [
          ...env.filter(({ valueFrom }) => valueFrom).map(({ name }) => name),
          ...volumeMounts.filter(({ name }) => ["request", "data"].includes(name)).map(({ name }) => name),
        ],
      ]),
    );
  const [dump, restore, snapshot, place] = copies.map(secrets);
  expect(dump).toEqual({ pipe: [], copy: ["request"], database: ["PGPASSWORD"] });
  expect(restore).toEqual({ pipe: [], copy: ["request"], database: ["PGPASSWORD"] });
  expect(snapshot).toEqual({ copy: ["REDIS_PASSWORD", "request"] });
  expect(place).toEqual({ copy: ["request", "data"], database: ["data"] });
  for (const one of copies) {
    const text = JSON.stringify(copyJob(one, options));
    expect(text).not.toContain(password);
    expect(text).not.toContain("signature");
    const job = { metadata: { name: "svc-a-copy", namespace: "berth-env-a", uid: "u" } } as V1Job;
    const { data, metadata } = copySecret(one, options, job);
    expect(Object.keys(data!)).toEqual(["request", "password"]);
    expect(metadata.ownerReferences).toMatchObject([{ kind: "Job", uid: "u" }]);
  }
});

test("the Secret of the largest backup fits into the cluster's database", () => {
  const send = partSizes.map((bytes) => ({ url: `https://objects.example.com/${"x".repeat(900)}`, bytes }));
  const job = { metadata: { name: "svc-a-copy", uid: "u" } } as V1Job;
  const { data } = copySecret(copy("postgres", { send }), options, job);
  expect(data!.request!.length).toBeLessThan(1024 ** 2);
  expect(partSizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(100 * 1024 ** 3);
});

test("a copy ends as its containers say", () => {
  const job = (type: string) => ({ status: { conditions: [{ type, status: "True" }] } }) as V1Job;
  type End = { exitCode?: number; message?: string };
  const pod = (copier: End, database?: End) =>
    ({
      status: {
        containerStatuses: [
          { name: "copy", state: { terminated: { exitCode: 0, ...copier } } },
          ...(database ? [{ name: "database", state: { terminated: { exitCode: 0, ...database } } }] : []),
        ],
      },
    }) as V1Pod;
  const sent = { parts: 2, version: "18.1" };
  const good = { message: JSON.stringify(sent) };
  const failed = { exitCode: 1, message: '{"problem":"the program of the database failed"}' };
  expect(endOf({}, pod(good))).toBeUndefined();
  expect(endOf(job("Complete"), pod(good, {}))).toEqual(sent);
  expect(endOf(job("Complete"), pod({ message: "not JSON" }, {}))).toBeInstanceOf(Error);
  expect(endOf(job("Failed"), pod(good, { exitCode: 1 }))).toBeInstanceOf(Error);
  const owner = "psql:<stdin>:9: ERROR:  must be owner of extension hstore";
  const refused = endOf(job("Failed"), pod(failed, { exitCode: 1, message: owner }));
  expect(refused).toBeInstanceOf(BackupRefusal);
  expect((refused as Error).message).toBe("The database refused it: must be owner of extension hstore.");
  const damaged = endOf(
    job("Failed"),
    pod({ message: '{"fetched":true}' }, { exitCode: 1, message: "unreadable\n" }),
  );
  expect(damaged).toBeInstanceOf(BackupRefusal);
  const why = (copier: End, database: End) =>
    (endOf(job("Failed"), pod(copier, { exitCode: 1, ...database })) as Error).message;
  expect(why(failed, {})).toContain("the program of the database failed");
  const broken = { exitCode: 1, message: '{"problem":"fetch failed: read ECONNRESET"}' };
  const early = { message: "pg_restore: error: could not read from input file: end of file" };
  expect(why(broken, early)).toMatch(/end of file; .*: fetch failed: read ECONNRESET$/);
});
