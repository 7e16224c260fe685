import { expect, test } from "vitest";
import { newPassword } from "../../lifecycle.ts";
import type { Addon } from "../../port.ts";
import { addonObjects } from "../server/manifests.ts";
import { programs } from "../server/server-scripts.ts";
import { poolerAddress, poolerObjects, poolerOutcome } from "./manifests.ts";

const addon: Addon = {
  ...{ serviceId: "svc_a", accountId: "acc_a", projectId: "prj_a", environmentId: "env_A" },
  ...{ name: "db", type: "postgres", size: "small", generation: 4 },
};
const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "svc-a", uid: "1" };
const parts = { image: "example/pgbouncer:1", server: { host: "db.berth-env-a.svc", port: 5432 }, owner };
const dns = { ports: [{ port: 53, protocol: "UDP" }] };
const options = { namespacePrefix: "berth", user: 999, dns };
const objects = (password = newPassword(), more: Partial<typeof parts> = {}) =>
  poolerObjects(addon, { ...parts, ...more }, password, options);

function filesOf({ secret }: ReturnType<typeof objects>) {
  const texts = Object.entries(secret.data ?? {}).map(([name, text]) => [
    name,
    Buffer.from(text, "base64").toString(),
  ]);
  return Object.fromEntries(texts) as Record<"pgbouncer.ini" | "userlist.txt", string>;
}

test("nothing of a pooler is taken for the addon's server, and all of it goes with that", () => {
  const all = objects();
  const server = addonObjects(addon, { image: "postgres:18", storage: "1Gi" }, newPassword(), options);
  const { labels: podLabels } = all.deployment.spec!.template.metadata!;
  for (const { metadata } of Object.values(all)) {
    expect(metadata.namespace).toBe("berth-env-a");
    expect(metadata.name).toMatch(/^svc-a-pooler(-[0-9a-f]{12})?$/);
    expect(metadata.ownerReferences).toEqual([owner]);
    expect(metadata.labels).toMatchObject({ "berth.dev/kind": "pooler", "berth.dev/pooler": "svc_a" });
    expect(metadata.labels).not.toHaveProperty("berth.dev/service");
  }
  for (const selected of [server.service.spec!.selector!, server.policy.spec!.podSelector!.matchLabels!])
    expect(Object.entries(selected).every(([name, value]) => podLabels?.[name] === value)).toBe(false);
  expect(all.service.spec).toMatchObject({
    selector: { "berth.dev/pooler": "svc_a" },
    ports: [{ port: 5432, targetPort: 6432 }],
  });
  expect(poolerAddress(addon, "berth")).toEqual({ host: "svc-a-pooler.berth-env-a.svc", port: 5432 });
});

test("its name fits what Kubernetes allows, and no service may have it by accident", () => {
  const serviceId = `svc_${"0".repeat(26)}`;
  expect(poolerAddress({ ...addon, serviceId }, "berth").host.split(".")[0]!.length).toBeLessThan(64);
});

test("a pooler knows of a password what the server knows, and logs in as whoever logged in to it", () => {
  const password = newPassword();
  const all = objects(password);
  const files = filesOf(all);
  const { verifier } = programs.postgres.files("svc_a", password);
  expect(files["userlist.txt"]).toBe(`"addon_a" "${verifier}"\n`);
  // With a user there it would need the password itself.
  expect(files["pgbouncer.ini"]).toMatch(/^\[databases\]\naddon_a = host=db\.berth-env-a\.svc port=5432\n\n/);
  expect(files["pgbouncer.ini"]).toContain("\nauth_type = scram-sha-256\n");
  const text = JSON.stringify([all, files]);
  for (const secret of [password, Buffer.from(password).toString("base64")])
    expect(text).not.toContain(secret);
  expect(JSON.stringify(all.deployment)).not.toContain(verifier);
});

test("another password is another Secret and another pod, which serves before the one of before ends", () => {
  const password = newPassword();
  expect(objects(password)).toEqual(objects(password));
  const [before, after] = [objects(password), objects()];
  expect(after.secret.metadata.name).not.toBe(before.secret.metadata.name);
  expect(after.deployment.spec?.template).not.toEqual(before.deployment.spec?.template);
  expect(after.deployment.spec?.strategy?.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
  // A Secret does not change: other settings are another one.
  const elsewhere = objects(password, { server: { host: "other", port: 5432 } });
  expect(elsewhere.secret.metadata.name).not.toBe(before.secret.metadata.name);
});

test("its pod has no rights, no API, and reaches the addon and DNS alone", () => {
  const { deployment, policy } = objects();
  const { spec } = deployment.spec!.template;
  expect(spec).toMatchObject({
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, runAsUser: 999, seccompProfile: { type: "RuntimeDefault" } },
  });
  expect(spec!.containers[0]).toMatchObject({
    command: ["pgbouncer", "/etc/berth/pgbouncer.ini"],
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    resources: { limits: { memory: "64Mi", "ephemeral-storage": "64Mi" } },
  });
  expect(policy.spec).toMatchObject({
    podSelector: { matchLabels: { "berth.dev/pooler": "svc_a" } },
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ _from: [{ podSelector: {} }], ports: [{ port: 6432 }] }],
    egress: [
      { to: [{ podSelector: { matchLabels: { "berth.dev/service": "svc_a" } } }], ports: [{ port: 5432 }] },
      dns,
    ],
  });
});

test("it is ready once its pods of before have ended, and has failed when its pod does not start in time", () => {
  const outcome = (status: object, generation = 2) =>
    poolerOutcome({ metadata: { generation }, status: { observedGeneration: 2, ...status } }).state;
  const serving = { replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
  expect(outcome(serving)).toBe("ready");
  expect(outcome(serving, 3)).toBe("waiting");
  expect(outcome({ ...serving, replicas: 2 })).toBe("waiting");
  expect(outcome({ ...serving, availableReplicas: 0 })).toBe("waiting");
  const late = {
    conditions: [{ type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded" }],
  };
  expect(outcome(late)).toBe("failed");
  expect(outcome(late, 3)).toBe("waiting");
  expect(poolerOutcome({}).state).toBe("waiting");
});
