import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import type { KubernetesObject, V1Secret, V1Service } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kind, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { managed } from "../../services/deployer/kube/names.ts";
import { INSTALLATION } from "../../services/deployer/runtime/kubernetes/namespace/namespace-manifests.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { chartFolder, ciValues, helm } from "../contracts/chart/render.ts";
import { readRun } from "../support/cluster-run.ts";
import { type Door, openDoor } from "../support/door.ts";

const platform = inject("platform")!;
// A second installation beside the platform under test, with everything bundled.
const name = `life-${randomBytes(3).toString("hex")}`;
const environment = `${name}-berth-env-of-a-test`;
let kube: Kube;
let folder: string;
let values: string;

beforeAll(async () => {
  kube = connectKube();
  folder = await mkdtemp(join(tmpdir(), "berth-life-"));
  values = join(folder, "values.json");
  const [{ name: release }] = JSON.parse(await helm("list", "-n", platform.namespace, "-o", "json"));
  const given = JSON.parse(await helm("get", "values", release, "-n", platform.namespace, "-o", "json"));
  const port = { type: "NodePort", nodePort: null };
  const own = {
    ...given,
    publicUrl: "http://berth.example.com",
    service: port,
    ingress: { enabled: false },
    owner: { email: "owner@example.com" },
    smtp: {},
    defaults: { ...given.defaults, replicas: 1 },
    uninstall: { removeApps: false },
    registry: { ...given.registry, bundled: true, nodePort: 30_599, existingSecret: "", push: "", pull: "" },
  };
  for (const part of ["database", "nats", "objectStore"])
    own[part] = { ...own[part], bundled: true, existingSecret: "" };
  own.objectStore.service = { type: "ClusterIP", nodePort: null };
  await writeFile(values, JSON.stringify(own));
});

afterAll(async () => {
  await helm("uninstall", name, "-n", name).catch(() => {});
  for (const one of [name, environment]) await kube?.remove(kinds.Namespace, one);
  await rm(folder, { recursive: true, force: true });
});

test("what the values say of the cluster's doors and it does not have is told before anything is made", async () => {
  const { ingress } = await readRun();
  const dryRun = (className: string, where: string) => {
    const labels = { "kubernetes.io/metadata.name": where };
    const apps = JSON.stringify({ ingress: { className }, ingressNamespaceLabels: labels });
    const given = [
      "-f",
      ciValues("bundled"),
      "--set-json",
      `apps=${apps}`,
      "--set",
      "apps.domain=example.com",
    ];
    return helm("install", `${name}-doors`, chartFolder, "--dry-run=server", ...given).catch(String);
  };
  const told = await dryRun("no-such-class", "no-such-namespace");
  expect(told).toContain("apps.ingress.className: this cluster has no IngressClass no-such-class");
  expect(told).toMatch(/apps.ingressNamespaceLabels: no namespace of this cluster .*no-such-namespace/);
  expect(await dryRun(ingress.className, ingress.namespace)).toContain("MANIFEST:");
});

const install = (chart: string, ...args: string[]) =>
  helm(
    "upgrade",
    "--install",
    name,
    chart,
    "-n",
    name,
    "--create-namespace",
    "-f",
    values,
    "--wait",
    ...args,
  );

/** Returns the previous commit's chart if it accepts the same values, else the current one. */
async function formerChart(): Promise<string> {
  const root = resolve(import.meta.dirname, "../..");
  const unpack = `git archive HEAD~1 helm/berth | tar x -C ${folder}`;
  const former = join(folder, "helm", "berth");
  try {
    await promisify(execFile)("bash", ["-o", "pipefail", "-c", unpack], { cwd: root });
    await helm("template", former, "-f", values, "--kube-version", "1.36.0");
    return former;
  } catch (error) {
    console.log(`Begins with the current chart: ${String(error).split("\n")[0]}`);
    return chartFolder;
  }
}

/** Returns a client, signed in with the password that the installation generated. */
async function signIn(): Promise<Door> {
  const service = await kube.get<V1Service>(kinds.Service, `${name}-berth-gateway`, name);
  const secret = await kube.get<V1Secret>(kinds.Secret, `${name}-berth-owner`, name);
  const password = Buffer.from(secret!.data!.password!, "base64").toString();
  const origin = `http://${new URL(platform.origin).hostname}:${service!.spec!.ports![0]!.nodePort}`;
  return eventually("the owner can sign in", async () => {
    const answer = await fetch(`${origin}/v1/sessions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ email: "owner@example.com", password }),
    }).catch(() => undefined);
    const { token } = ((await answer?.json()) ?? {}) as { token?: string };
    return token !== undefined && openDoor(origin, token);
  });
}

const projects = async ({ A, must }: Door) =>
  (await must<{ data: { name: string }[] }>("GET", `${A}/projects`)).data.map((project) => project.name);

test("an installation is upgraded, is uninstalled, comes back with its data, and removes its apps when uninstall.removeApps is set", async () => {
  const restricted = { "pod-security.kubernetes.io/enforce": "restricted" };
  await kube.apply(kinds.Namespace, { metadata: { name, labels: restricted } });
  await install(await formerChart());
  const first = await signIn();
  await first.must("POST", `${first.A}/projects`, { name: "kept" });
  await install(chartFolder);
  expect(await projects(await signIn())).toEqual(["kept"]);

  const labels = { ...managed, [INSTALLATION]: `${name}-berth-builds` };
  await kube.apply(kinds.Namespace, { metadata: { name: environment, labels } });
  await helm("uninstall", name, "-n", name, "--wait");
  const left = await eventually("nothing but what is kept is left", async () => {
    const found = await leftovers();
    return found.every((one) => /^(Secret|PersistentVolumeClaim) /.test(one)) && found;
  });
  expect(left.sort()).toEqual([
    ...["nats", "object-store", "postgres", "registry"].map(
      (server) => `PersistentVolumeClaim data-${name}-berth-${server}-0`,
    ),
    ...["database", "keys", "owner"].map((secret) => `Secret ${name}-berth-${secret}`),
  ]);
  expect(await kube.get(kinds.Namespace, environment)).toBeDefined();

  await install(chartFolder, "--set", "uninstall.removeApps=true");
  expect(await projects(await signIn())).toEqual(["kept"]);
  await helm("uninstall", name, "-n", name, "--wait");
  expect(await kube.get(kinds.Namespace, environment)).toBeUndefined();
  expect(await kube.get(kinds.Namespace, `${name}-berth-builds`)).toBeUndefined();
}, 900_000);

/** Returns every object of the release that exists, as `Kind name`. */
async function leftovers(): Promise<string[]> {
  const rbac = "rbac.authorization.k8s.io/v1";
  const admission = "admissionregistration.k8s.io/v1";
  const all: [apiVersion: string, ...kinds: string[]][] = [
    ["v1", "Pod", "Service", "Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim", "Namespace"],
    ["v1", "ResourceQuota", "LimitRange"],
    ["apps/v1", "Deployment", "StatefulSet", "ReplicaSet"],
    ["batch/v1", "Job", "CronJob"],
    ["policy/v1", "PodDisruptionBudget"],
    ["autoscaling/v2", "HorizontalPodAutoscaler"],
    ["networking.k8s.io/v1", "NetworkPolicy", "Ingress"],
    [rbac, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    [admission, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
  ];
  const labels = `app.kubernetes.io/instance=${name}`;
  const lists = all.flatMap(([apiVersion, ...names]) =>
    names.map(async (one) => {
      const kind: Kind<KubernetesObject> = { apiVersion, kind: one, plural: "" };
      return (await kube.list(kind, { labels })).items.map(({ metadata }) => `${one} ${metadata!.name}`);
    }),
  );
  return (await Promise.all(lists)).flat();
}
