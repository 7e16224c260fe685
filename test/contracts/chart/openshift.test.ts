import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { loadYaml, type V1NetworkPolicy } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { addonObjects } from "../../../services/deployer/addons/kubernetes/server/manifests.ts";
import { jobBuilderOptions } from "../../../services/deployer/builder/job/config.ts";
import { toJob } from "../../../services/deployer/builder/job/job-manifest.ts";
import type { KubernetesConfig } from "../../../services/deployer/config.ts";
import { runtimeOptions } from "../../../services/deployer/engine/kubernetes.ts";
import { manifestsOf } from "../../../services/deployer/runtime/kubernetes/release/manifests.ts";
import { ADDON_TYPES } from "../../../services/deployer/terms/services.ts";
import { type Constraints, RESTRICTED_V2, violationsOf } from "./constraints.ts";
import {
  chartFolder,
  helmProgram,
  type Manifest,
  ofKind,
  podsOf,
  readDeployerConfig,
  render,
} from "./render.ts";

const PRESET = join(chartFolder, "presets", "openshift.yaml");
const ownRegistry = { "registry.push": '"registry.example.com/berth"' };

describe.skipIf(!helmProgram)("the preset for OpenShift", () => {
  let manifests: Manifest[];
  let config: KubernetesConfig;

  beforeAll(async () => {
    manifests = await render("bundled", { ...ownRegistry, "uninstall.removeApps": "true" }, "-f", PRESET);
    config = readDeployerConfig(manifests);
  });

  test("the rules tell apart what needs the preset", async () => {
    const [pod] = podsOf(await render("bundled"));
    expect(violationsOf(pod!.spec, RESTRICTED_V2)).toEqual(["runAsUser", "fsGroup"]);
  });

  test("every pod of the platform meets restricted-v2", () => {
    const pods = podsOf(manifests);
    expect(pods.length).toBeGreaterThanOrEqual(14);
    for (const { name, spec } of pods) expect([name, violationsOf(spec, RESTRICTED_V2)]).toEqual([name, []]);
  });

  test("apps and addons meet restricted-v2", () => {
    const own = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1", serviceId: "svc_1" };
    for (const type of ["web", "worker"] as const) {
      const release = {
        ...{ ...own, type, version: 1, revision: 1, port: 80, replicas: 1, size: "small" as const },
        names: { project: "p", environment: "e", service: "s" },
        ...{ artifact: "image:example.test/web@sha256:01", minReadySeconds: 10, command: "start" },
      };
      const { apps, ingress } = runtimeOptions(config, {} as never);
      const { template } = manifestsOf(release, { apps, ingress, pullSecret: true }).deployment;
      expect(violationsOf(template.spec!, RESTRICTED_V2)).toEqual([]);
    }
    const pair = { primary: 0 as const, replicationMark: "mark" };
    for (const [type, more] of [
      ...ADDON_TYPES.map((type) => [type, {}] as const),
      ["redis", { pair }] as const,
    ]) {
      const addon = { ...own, name: "store", type, size: "small" as const, generation: 1 };
      const fixed = { image: "example/server:1", storage: "1Gi", ...more };
      const options = { namespacePrefix: config.namespacePrefix, user: config.addonUser, dns: {} };
      const { set } = addonObjects(addon, fixed, "password", options);
      expect(violationsOf(set.spec!.template.spec!, RESTRICTED_V2)).toEqual([]);
    }
  });

  test("builds do not, and the constraints for them allow exactly what they need besides", async () => {
    const request = { ...{ buildId: "bld_1", serviceId: "svc_1" }, timeoutMs: 1_000 };
    const builds = (more: object = {}) =>
      toJob({ ...jobBuilderOptions(config), ...more }, request as never).spec!.template.spec!;
    expect(violationsOf(builds(), RESTRICTED_V2)).toEqual([
      ...["runAsUser", "fsGroup", "seccompProfile", "allowPrivilegeEscalation", "capabilities"],
    ]);
    const file = join(chartFolder, "../../deploy/cluster/templates/openshift-builds-scc.yaml");
    const text = await readFile(file, "utf8");
    const constraints = loadYaml<Constraints & { users: string[] }>(text);
    expect(violationsOf(builds(), constraints)).toEqual([]);
    expect(constraints.allowedCapabilities).toEqual(
      builds().containers[0]!.securityContext!.capabilities!.add,
    );
    expect(constraints.users).toEqual([`system:serviceaccount:${config.buildNamespace}:default`]);
    // Root of a user namespace of its own is further from what they allow, not nearer.
    expect(violationsOf(builds({ userNamespaces: true }), constraints)).toContain("capabilities");
  });

  test("DNS is reached on the port where it answers, and apps by the router", () => {
    const policies = ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy");
    const open = policies.find(({ metadata }) => metadata!.name === "berth-default-deny")!.spec!.egress!;
    expect(open[0]!.ports!.map(({ port }) => port)).toEqual([53, 53, 5353, 5353]);
    expect(config.dnsPorts).toEqual([53, 5353]);
    const labels = { "dns.operator.openshift.io/daemonset-dns": "default" };
    expect(open[0]!.to!.map(({ podSelector }) => podSelector!.matchLabels)).toEqual([labels]);
    expect(config.dnsPeers).toEqual(open[0]!.to);
    expect(config.ingressNamespaceLabels).toEqual({ "policy-group.network.openshift.io/ingress": "" });
    expect(config.ingressAnnotations).toEqual({ "route.openshift.io/termination": "edge" });
  });
});
