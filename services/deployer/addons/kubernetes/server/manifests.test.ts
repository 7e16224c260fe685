import { expect, test } from "vitest";
import { ConfigError, readConfig } from "../../../../kit/process/config.ts";
import { ADDON_TYPES } from "../../../terms/services.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon } from "../../port.ts";
import { kubernetesAddonFields } from "../config.ts";
import { addonObjects } from "./manifests.ts";

const addon: Addon = {
  serviceId: "svc_a",
  accountId: "acc_a",
  projectId: "prj_a",
  environmentId: "env_A",
  name: "store",
  type: "postgres",
  size: "small",
  generation: 4,
};
const kept = { image: "example/server:1", storage: "1Gi" };
const dns = { ports: [{ port: 53, protocol: "UDP" }] };
const options = { namespacePrefix: "berth", user: 999, dns };
const objects = (more: Partial<Addon> = {}, password = newPassword()) =>
  addonObjects({ ...addon, ...more }, kept, password, options);

test("an addon is reached by its name, and everything else of it is named by its id", () => {
  const { secret, service, policy, set } = objects();
  expect([service.metadata.name, policy.metadata.name, set.metadata.name]).toEqual([
    "store",
    "svc-a",
    "svc-a",
  ]);
  expect(secret.metadata.name).toMatch(/^svc-a-[0-9a-f]{12}$/);
  for (const { metadata } of [secret, service, policy, set]) {
    expect(metadata.namespace).toBe("berth-env-a");
    expect(metadata).toMatchObject({ labels: { "berth.dev/service": "svc_a", "berth.dev/kind": "addon" } });
  }
});

test("no object of an addon holds its password, plain or encoded", () => {
  for (const type of ADDON_TYPES) {
    const password = newPassword();
    const { secret, ...others } = objects({ type }, password);
    const files = Object.values(secret.data ?? {}).map((text) => Buffer.from(text, "base64").toString());
    const all = JSON.stringify([others, secret, files]);
    expect(all).not.toContain(password);
    expect(all).not.toContain(Buffer.from(password).toString("base64"));
  }
});

test("the same wish gives the same objects, and another password another Secret and another pod", () => {
  for (const type of ADDON_TYPES) {
    const password = newPassword();
    expect(objects({ type }, password)).toEqual(objects({ type }, password));
    const [before, after] = [objects({ type }, password), objects({ type })];
    expect(after.secret.metadata.name).not.toBe(before.secret.metadata.name);
    expect(after.set.spec?.template).not.toEqual(before.set.spec?.template);
    const { generation: _, ...rest } = { ...before.set.spec, generation: 0, template: 0 };
    expect({ ...after.set.spec, template: 0 }).toEqual(rest);
  }
});

test("a server runs without rights, and only its environment reaches it", () => {
  for (const type of ADDON_TYPES) {
    const { set, policy } = objects({ type });
    const pod = set.spec!.template.spec!;
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(pod.containers[0]!.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(policy.spec).toMatchObject({
      podSelector: { matchLabels: { "berth.dev/service": "svc_a" } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ _from: [{ podSelector: {} }] }],
      egress: [],
    });
  }
});

test("a standby is a second pod, apart from the first one, and the name of the addon leads to the primary alone", () => {
  const pair = { primary: 1 as const, replaced: "an-uid", replicationMark: "a-mark" };
  const password = newPassword();
  const redis = { ...addon, type: "redis" as const };
  const nodes = { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } };
  const placed = { ...options, placement: { affinity: { nodeAffinity: {}, ...nodes } } };
  const { service, policy, set, secret } = addonObjects(redis, { ...kept, pair }, password, placed);
  const selector = { "berth.dev/service": "svc_a" };
  expect(service.spec).toMatchObject({
    selector: { ...selector, "statefulset.kubernetes.io/pod-name": "svc-a-1" },
    publishNotReadyAddresses: true,
  });
  expect(set.spec).toMatchObject({ replicas: 2, updateStrategy: { type: "OnDelete" } });
  expect(set.metadata).toMatchObject({ annotations: { "berth.dev/replaced": "an-uid" } });
  expect(policy.spec?.egress).toEqual([
    { to: [{ podSelector: { matchLabels: selector } }], ports: [{ port: 6379, protocol: "TCP" }] },
    dns,
  ]);
  const { affinity, containers } = set.spec!.template.spec!;
  expect(affinity?.nodeAffinity).toEqual({});
  expect(affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution).toHaveLength(1);
  expect(containers[0]!.env).toContainEqual({ name: "PRIMARY", value: "1" });
  // One that had none is as ever: nothing of it changes before somebody asks for a standby.
  const alone = objects({ type: "redis" }, password);
  expect(alone.secret).toEqual(secret);
  expect(alone.service.spec?.selector).toEqual(selector);
  expect(alone.set.spec).toMatchObject({ replicas: 1, updateStrategy: { type: "RollingUpdate" } });
  expect(JSON.stringify(alone)).not.toMatch(/PRIMARY|replication|pod-name/);
});

test("its size limits a server, and its volume goes with it alone", () => {
  const { set } = objects({ type: "redis", size: "large" });
  const { resources, command } = set.spec!.template.spec!.containers[0]!;
  expect(resources?.limits).toEqual({ cpu: "2", memory: "4Gi", "ephemeral-storage": "8Gi" });
  expect(resources?.requests).toHaveProperty("ephemeral-storage", "410Mi");
  expect(command?.at(-1)).toContain("--maxmemory 3072mb");
  expect(set.spec?.persistentVolumeClaimRetentionPolicy).toEqual({
    whenDeleted: "Delete",
    whenScaled: "Retain",
  });
  const [claim] = set.spec!.volumeClaimTemplates!;
  expect(claim?.spec).toEqual({
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: "1Gi" } },
  });
});

test("a server runs where the operator says, and as a user that the cluster chooses where that is to be so", () => {
  const placement = { nodeSelector: { pool: "data" }, priorityClassName: "high" };
  const podOf = (more: object) =>
    addonObjects(addon, kept, newPassword(), { ...options, ...more }).set.spec!.template.spec!;
  expect(podOf({ placement })).toMatchObject(placement);
  expect(podOf({}).securityContext).toMatchObject({ runAsUser: 999, runAsGroup: 999, fsGroup: 999 });
  const any = podOf({ user: "any" });
  expect(any.securityContext).toEqual({
    runAsNonRoot: true,
    fsGroupChangePolicy: "OnRootMismatch",
    seccompProfile: { type: "RuntimeDefault" },
  });
  // Such a cluster gives the user a name in the image's own file.
  const files = any.containers[0]!.volumeMounts!.map(({ mountPath }) => mountPath);
  expect(files).not.toContain("/etc/passwd");
  const read = (ADDON_USER?: string) => readConfig({ ADDON_USER }, kubernetesAddonFields).addonUser;
  expect([read(), read("70"), read("any")]).toEqual([999, 70, "any"]);
  for (const wrong of ["0", "root"]) expect(() => read(wrong)).toThrow(ConfigError);
});

test("images are a JSON object, of which each may be left out", () => {
  const read = (text?: string) => readConfig({ ADDON_IMAGES: text }, kubernetesAddonFields).addonImages;
  expect(read()).toEqual({ postgres: "postgres:18", redis: "redis:8" });
  expect(read('{"redis":"valkey/valkey:8"}')).toEqual({ postgres: "postgres:18", redis: "valkey/valkey:8" });
  for (const wrong of ["[]", "x", "null", '{"mysql":"a"}', '{"redis":""}', '{"redis":1}'])
    expect(() => read(wrong)).toThrow(ConfigError);
});
