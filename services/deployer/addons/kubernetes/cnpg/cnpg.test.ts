import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import type { PostgresClusterObject } from "../../../kube/kinds.ts";
import { addonName } from "../../keys.ts";
import type { Addon } from "../../port.ts";
import { momentClusterOf, objectStoreOf, scheduledBackupOf } from "./archive-manifests.ts";
import { clusterOf, policyOf, secretOf } from "./manifests.ts";
import { clusterOutcome, clusterStatus } from "./status.ts";

const NOW = Date.parse("2026-11-28T12:00:00Z");
const addon: Addon = {
  ...{ serviceId: "svc_a", accountId: "acc_a", projectId: "prj_a", environmentId: "env_a" },
  ...{ name: "db", type: "postgres", engine: "cnpg", size: "small", generation: 2 },
};
const options = { namespacePrefix: "berth", user: 999, operatorNamespace: "operators", egress: [] };
const fixed = { image: "postgres:18", storage: "5Gi" };

const pod = (name: string, ready: boolean, at: string, labels = {}): V1Pod => ({
  metadata: { name, labels: { "cnpg.io/instanceName": name, ...labels }, creationTimestamp: new Date(at) },
  status: {
    conditions: [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime: new Date(at) }],
    containerStatuses: [{ name: "postgres", ready, started: true, image: "", imageID: "", restartCount: 0 }],
  },
});
const cluster = (status: PostgresClusterObject["status"], replicas = 1, changedAt?: number) => {
  const object = clusterOf({ ...addon, replicas }, fixed, changedAt?.toString(), options);
  return { ...object, status } as PostgresClusterObject;
};
const SERVING = { currentPrimary: "a-1", targetPrimary: "a-1" };

describe("a PostgreSQL addon on CloudNativePG", () => {
  test("is named and placed like any other, and nothing of it holds its password", () => {
    const all = [secretOf, (one: Addon) => clusterOf(one, fixed, undefined, options)];
    for (const make of all) {
      const object = make(addon, "a-password", options);
      expect(object.metadata).toMatchObject({ name: "svc-a", namespace: "berth-env-a" });
      expect(JSON.stringify(object)).not.toContain("a-password");
    }
    const { password = "" } = secretOf(addon, "a-password", options).data!;
    expect(Buffer.from(password, "base64").toString()).toMatch(/^SCRAM-SHA-256\$/);
    expect(secretOf(addon, "a-password", options)).toEqual(secretOf(addon, "a-password", options));
  });

  test("is reached by its environment and the operator, and reaches only itself and what it is told", () => {
    const egress = [{ ports: [{ port: 6443, protocol: "TCP" }] }];
    const { spec } = policyOf(addon, { ...options, egress });
    const instances = { podSelector: { matchLabels: { "cnpg.io/cluster": "svc-a" } } };
    expect(spec?.ingress?.[0]).toEqual({
      _from: [{ podSelector: {} }],
      ports: [{ port: 5432, protocol: "TCP" }],
    });
    expect(spec?.ingress?.[1]?._from).toEqual([
      { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "operators" } } },
      instances,
    ]);
    expect(spec?.egress?.map(({ to }) => to)).toEqual([[instances], undefined]);
  });

  test("has an archive of its own, and the server of a moment leaves it alone", () => {
    const login = { accessKey: "an-access-key", secretKey: "a-secret-key" };
    const place = { endpoint: "https://s3.example.com", bucket: "archives", region: "eu", days: 7 };
    const archive = { ...place, ...login, to: [{ ports: [{ port: 443 }] }] };
    const own = { ...options, archive };
    const { spec } = clusterOf(addon, fixed, undefined, own);
    const parameters = { barmanObjectName: "svc-a", serverName: "svc-a" };
    expect(spec?.plugins).toMatchObject([{ isWALArchiver: true, parameters }]);
    expect(clusterOf(addon, fixed, undefined, options).spec).not.toHaveProperty("plugins");
    expect(policyOf(addon, own).spec?.egress).toContainEqual(archive.to[0]);
    const store = objectStoreOf(addon, archive, own);
    expect(store.spec).toMatchObject({
      retentionPolicy: "7d",
      configuration: { destinationPath: "s3://archives/addons/svc_a/" },
    });
    expect(JSON.stringify([spec, store])).not.toMatch(/an-access-key|a-secret-key/);
    const at = new Date("2026-11-28T10:00:00Z");
    const server = {
      ...clusterOf({ ...addon, replicas: 3 }, fixed, undefined, own),
    } as PostgresClusterObject;
    server.metadata = { ...server.metadata, uid: "its-uid" };
    const moment = momentClusterOf({ ...addon, replicas: 3 }, at, server, own);
    // Whoever makes it late, after the addon was removed, leaves nothing.
    expect(moment.metadata?.ownerReferences).toMatchObject([{ name: "svc-a", uid: "its-uid" }]);
    expect(moment.metadata).toMatchObject({ name: "svc-a-moment", namespace: "berth-env-a" });
    expect(moment.metadata?.labels).not.toHaveProperty("berth.dev/service");
    expect(moment.spec).toMatchObject({
      instances: 1,
      bootstrap: { recovery: { recoveryTarget: { targetTime: "2026-11-28T10:00:00.000Z" } } },
      externalClusters: [{ plugin: { parameters } }],
    });
    expect(moment.spec?.plugins).toMatchObject([{ isWALArchiver: false }]);
    const { schedule } = scheduledBackupOf(addon, moment as PostgresClusterObject, own).spec as {
      schedule: string;
    };
    expect(schedule).toMatch(/^0 ([1-5]?\d) [0-4] \* \* \*$/);
  });

  test("confirms commits once a standby has them: with one where that is there, with two always", () => {
    const durability = (replicas?: number) => {
      const { postgresql } = clusterOf({ ...addon, replicas }, fixed, undefined, options).spec!;
      return (postgresql as { synchronous?: { dataDurability: string } }).synchronous?.dataDurability;
    };
    expect([undefined, 1, 2, 3].map(durability)).toEqual([undefined, undefined, "preferred", "required"]);
  });

  test("is ready once its primary serves and its role has this password", () => {
    const role = { [addonName("svc_a")]: { resourceVersion: "7" } };
    const serving = cluster({ ...SERVING, managedRolesStatus: { passwordStatus: role } });
    const pods = [pod("a-1", true, "2026-11-28T11:00:00Z")];
    const outcome = (secretVersion: string, held = pods) =>
      clusterOutcome(serving, held, { serviceId: "svc_a", secretVersion }, NOW).state;
    expect(outcome("7")).toBe("ready");
    expect(outcome("8")).toBe("waiting");
    expect(outcome("7", [])).toBe("waiting");
    expect(outcome("7", [pod("a-1", false, "2026-11-28T11:00:00Z")])).toBe("failed");
  });

  test("counts the servers that are ready, and none while another takes over", () => {
    const two = [pod("a-1", true, "2026-11-28T11:00:00Z"), pod("a-2", true, "2026-11-28T11:30:00Z")];
    const usage = (
      status: PostgresClusterObject["status"],
      pods: V1Pod[],
      replicas: number,
      changedAt?: number,
    ) => clusterStatus(cluster(status, replicas, changedAt), pods, NOW)?.usage;
    const at = Date.parse("2026-11-28T11:30:00Z");
    expect(usage(SERVING, two, 2)).toEqual([{ at: at + 1, replicas: 2, size: "small" }]);
    expect(usage(SERVING, two, 1, at + 60_000)).toEqual([{ at: at + 60_001, replicas: 1, size: "small" }]);
    expect(usage({ ...SERVING, targetPrimary: "a-2" }, two, 2)).toEqual([{ at, replicas: 0, size: "small" }]);
    // The pod of a Job that makes the data of a server is none.
    const job = pod("a-1", true, "2026-11-28T11:45:00Z", { "cnpg.io/jobRole": "join" });
    expect(usage(SERVING, [...two, job], 2)).toEqual([{ at: at + 1, replicas: 2, size: "small" }]);
  });

  test("says of a server that stopped because its volume is full what to do", () => {
    const full = pod("a-1", false, "2026-11-28T11:00:00Z");
    Object.assign(full.status!.containerStatuses![0]!, {
      restartCount: 1,
      lastState: { terminated: { exitCode: 4 } },
    });
    expect(clusterStatus(cluster(SERVING), [full], NOW)).toMatchObject({
      running: false,
      problem: { state: "degraded", message: expect.stringContaining("config.storageGib") },
    });
  });

  test("writes ahead at most a quarter of its volume, between checkpoints", () => {
    const parametersOf = (storage: string) => {
      const { postgresql } = clusterOf(addon, { ...fixed, storage }, undefined, options).spec!;
      return (postgresql as { parameters: Record<string, string> }).parameters;
    };
    expect(parametersOf("1Gi")).toMatchObject({ max_wal_size: "256MB", min_wal_size: "32MB" });
    expect(parametersOf("64Mi")).toMatchObject({ max_wal_size: "48MB" });
    expect(parametersOf("20Gi")).not.toHaveProperty("max_wal_size");
  });

  test("says what the operator says of a server that it cannot run", () => {
    const phase = "Cluster is unrecoverable and needs manual intervention";
    const status = clusterStatus(cluster({ phase, phaseReason: "no volume is left" }), [], NOW);
    expect(status).toMatchObject({ running: false, problem: { state: "degraded" } });
    expect(status?.problem?.message).toBe(`${phase}. no volume is left`);
    expect(clusterStatus(cluster(undefined), [], NOW)?.problem?.message).toContain("has not begun");
    // As while an upgrade of the operator replaces the only pod.
    expect(clusterStatus(cluster(SERVING), [], NOW)?.problem?.message).toContain("is being replaced");
  });
});
