import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import type { V1Pod, V1Secret, V1Service, V1StatefulSet } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { openBucket } from "../../deploy/backup/bucket.ts";
import { openRegistry } from "../../deploy/backup/images.ts";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { INSTALLATION, managed, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { chartFolder, ciValues, helm } from "../contracts/chart/render.ts";
import { settled } from "../support/apps.ts";
import { readRun } from "../support/cluster-run.ts";
import { type Door, openDoor } from "../support/door.ts";
import { buildWorker } from "./bundled-build.ts";
import { connectKubectl } from "./kubectl.ts";
import { listLeftovers } from "./leftovers.ts";
import { pullImage, pushImage, statusForApps } from "./tiny-image.ts";

const platform = inject("platform")!;
// A second installation beside the platform under test, with everything bundled.
const name = `life-${randomBytes(3).toString("hex")}`;
// The chart's default: nodes know nothing of it, and pull without TLS because it is their own address.
const REGISTRY_PORT = 30_500;
const registryOfNodes = `localhost:${REGISTRY_PORT}`;
const deployers = `app.kubernetes.io/instance=${name},app.kubernetes.io/component=deployer`;
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
    registry: { server: given.registry.server },
  };
  for (const part of ["database", "nats", "objectStore"])
    own[part] = { ...own[part], bundled: true, existingSecret: "" };
  // Its Secret is in the namespace of the platform under test.
  delete own.apps?.addons?.archive;
  own.objectStore.publicUrl = "";
  own.objectStore.service = { type: "ClusterIP", nodePort: null };
  await writeFile(values, JSON.stringify(own));
  const restricted = { "pod-security.kubernetes.io/enforce": "restricted" };
  await kube.apply(kinds.Namespace, { metadata: { name, labels: restricted } });
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
    const given = ["-f", ciValues("bundled"), "--set-json", `apps=${apps}`, "--set=apps.domain=example.com"];
    return helm("install", `${name}-doors`, chartFolder, "--dry-run=server", ...given).catch(String);
  };
  const told = await dryRun("no-such-class", "no-such-namespace");
  expect(told).toContain("apps.ingress.className: this cluster has no IngressClass no-such-class");
  expect(told).toMatch(/apps.ingressNamespaceLabels: no namespace of this cluster .*no-such-namespace/);
  expect(await dryRun(ingress.className, ingress.namespace)).toContain("MANIFEST:");
});

const install = (chart: string, ...args: string[]) => {
  const where = ["-n", name, "--create-namespace", "-f", values];
  return helm("upgrade", "--install", name, chart, ...where, "--wait", ...args);
};

/** Returns the previous commit's chart if it accepts the same values, else the current one. */
async function formerChart(): Promise<string> {
  const root = resolve(import.meta.dirname, "../..");
  const unpack = `git archive HEAD~1 helm/berth | tar x -C ${folder}`;
  const former = join(folder, "helm", "berth");
  try {
    await promisify(execFile)("bash", ["-o", "pipefail", "-c", unpack], { cwd: root });
    await helm("template", former, "-f", values, "--dry-run=server");
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
    // A pod of before may answer the second request, and no longer reach its servers.
    return token !== undefined && openDoor(origin, token).catch(() => false as const);
  });
}

// The nodes send requests to a deployer a moment after it is ready.
const projects = ({ A, call }: Door) =>
  eventually("the projects are answered", async () => {
    const { status, body } = await call<{ data: { name: string }[] }>("GET", `${A}/projects`);
    return status === 200 && body.data.map((project) => project.name);
  });

test("an installation is upgraded with its data", async () => {
  await install(await formerChart());
  const first = await signIn();
  await first.must("POST", `${first.A}/projects`, { name: "kept" });
  await install(chartFolder);
  expect(await projects(await signIn())).toEqual(["kept"]);
  const pods = async () => (await kube.list(kinds.Pod, { namespace: name, labels: deployers })).items;
  await eventually("the deployer of before is gone", async () => (await pods()).length === 1);
}, 600_000);

test("helm test says that nodes do not reach the bundled registry, and finds that they do", async () => {
  const tried = () => helm("test", name, "-n", name, "--filter", `!name=${name}-berth-test-builds`);
  // Nothing listens there.
  await install(chartFolder, "--set", `registry.pull=localhost:${REGISTRY_PORT - 1}`);
  const failure = await tried().catch(({ stdout, stderr }) => `${stdout}${stderr}`);
  expect(failure).toMatch(/The node \S+ (does not reach|expects TLS from) the bundled registry/);
  await install(chartFolder);
  expect(await tried()).toMatch(/-test-pulls\n(?:.*\n){2}Phase: +Succeeded/);
}, 600_000);

test("processes reach the bundled PostgreSQL and NATS by TLS once it is turned on, and without it afterwards", async () => {
  const kubectl = await connectKubectl();
  const ask =
    "PGPASSWORD=$(cat /etc/berth-password/password) psql -XAtq -h 127.0.0.1 -U postgres -c \"select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where usename like 'berth%'\"";
  const server = `${name}-berth-postgres-0`;
  const encrypted = () => kubectl.call("exec", "-n", name, server, "--", "sh", "-c", ask);
  for (const [mode, expected] of [
    ["require", "t\n"],
    ["disable", "f\n"],
  ]) {
    await install(chartFolder, "--set", `bundledTls.mode=${mode}`);
    const door = await signIn();
    // Pods of before still answer, and no longer reach their servers.
    await eventually("the data is there", async () => (await projects(door).catch(() => []))[0] === "kept");
    await eventually("the pods of before are gone", async () => (await encrypted()) === expected);
  }
}, 600_000);

test("a server gets a larger volume as docs/runbooks/BerthVolumeFilling.md#what-to-do says, and its pod runs on", async () => {
  const kubectl = await connectKubectl();
  const server = `${name}-berth-nats`;
  const uid = async () => (await kube.get<V1Pod>(kinds.Pod, `${server}-0`, name))!.metadata!.uid;
  const before = await uid();
  const given = JSON.parse(await readFile(values, "utf8"));
  given.nats.server.storage.size = "2Gi";
  await writeFile(values, JSON.stringify(given));
  await expect(install(chartFolder)).rejects.toThrow(/[Ff]orbidden/);
  await kubectl.call("delete", "statefulset", server, "-n", name, "--cascade=orphan");
  await install(chartFolder);
  const set = await kube.get<V1StatefulSet>(kinds.StatefulSet, server, name);
  expect(set!.spec!.volumeClaimTemplates![0]!.spec!.resources!.requests!.storage).toBe("2Gi");
  expect(await uid()).toBe(before);
}, 600_000);

test("what builds of an account push is pulled with its login alone, runs, and goes with its service", async () => {
  const [kubectl, door] = await Promise.all([connectKubectl(), signIn()]);
  const { E } = await door.environment();
  const service = `${E}/services/built`;
  await door.must("POST", `${E}/services`, { name: "built", type: "worker", config: { minReadySeconds: 0 } });
  const { status, errors, image = "" } = await buildWorker(door, kubectl, name, service);
  expect({ status, errors }).toEqual({ status: "applied", errors: [] });
  const [path, digest] = image.split("@");
  expect(path).toBe(`${registryOfNodes}/apps/${door.accountId}`);
  const home = (await appNamespaces())[0]!;
  const statusAt = (repository: string) =>
    statusForApps(kube, home, `${registryOrigin}/v2/${repository}/manifests/${digest}`);
  const own = `apps/${door.accountId}`;
  expect(await Promise.all([own, `${own}x`, "apps"].map(statusAt))).toEqual([200, 403, 404]);
  await door.must("DELETE", service, { confirmImpact: true });
  await eventually("its image is removed", async () => (await statusAt(own)) === 404);
}, 600_000);

test("an installation that loses its volumes comes back from a backup, and its apps run on meanwhile", async () => {
  const [kubectl, { objectStore: s3 }] = await Promise.all([connectKubectl(), readRun()]);
  const inIt = (...args: string[]) => kubectl.call("-n", name, ...args);
  const own = `app.kubernetes.io/instance=${name}`;
  const scale = (kind: string, replicas: number) => inIt("scale", kind, "-l", own, `--replicas=${replicas}`);
  const run = async (command: string) => {
    await inIt("create", "job", command, `--from=cronjob/${name}-berth-${command}`);
    await inIt("wait", "--for=condition=complete", `job/${command}`, "--timeout=120s").catch(
      async (error) => {
        throw new Error(`${error}\n${await inIt("logs", "-l", `job-name=${command}`, "--tail=20")}`);
      },
    );
  };
  const bucket = openBucket({ ...s3, region: "us-east-1", bucket: name, prefix: "" });
  await bucket.make();
  const keys = { "access-key": s3.accessKey, "secret-key": s3.secretKey };
  await kubectl.apply({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "backup", namespace: name } },
    stringData: keys,
  });
  await install(
    chartFolder,
    ...["--set", `backup.enabled=true,backup.endpoint=${s3.endpoint},backup.bucket=${name}`],
    ...["--set", "backup.existingSecret=backup"],
  );

  const door = await signIn();
  const { E } = await door.environment();
  const made = await projects(door);
  await deployWorker(door, `${E}/services`, "early");
  // Its port on the nodes is for pulls alone.
  const atRegistry = <T>(use: (origin: string) => Promise<T>) =>
    kubectl.forwarded(name, `${name}-berth-registry-0`, 5000, use);
  const image = await atRegistry(async (origin) => {
    expect(await statusForApps(kube, (await appNamespaces())[0]!, `${origin}/v2/`)).toBe(401);
    return pushImage(await registry(origin), bucket);
  });
  expect(await statusForApps(kube, (await appNamespaces())[0]!, `${registryOrigin}/v2/`)).toBe(200);
  await run("backup");
  // The backup knows neither of these.
  await deployAgain(door, `${E}/services/early`, 2);
  await deployWorker(door, `${E}/services`, "late");
  const running = await eventually("each runs once", async () => {
    const pods = await appPods();
    return pods.length === 2 && pods;
  });

  await scale("deployment", 0);
  await scale("statefulset", 0);
  await inIt("delete", "pvc", "-l", own, "--wait=true", "--timeout=120s");
  await scale("statefulset", 1);
  await inIt("rollout", "status", "statefulset", "-l", own, "--timeout=120s");
  await run("restore");
  await scale("deployment", 1);
  await inIt("rollout", "status", "deployment", "-l", own, "--timeout=180s");

  const back = await signIn();
  expect(await projects(back)).toEqual(made);
  const pulled = atRegistry(async (origin) => pullImage(await registry(origin)));
  expect(await pulled).toBe(image);
  await eventually("the deployer has seen what it does not know", async () =>
    (await inIt("logs", "-l", deployers, "--tail=-1")).includes("what runs is newer than the database"),
  );
  expect(await appPods()).toEqual(running);
  await deployAgain(back, `${E}/services/early`, 3);
  expect(await appPods()).toContain(running.find((pod) => pod.startsWith("late")));
}, 900_000);

test("an installation is uninstalled, comes back with its data, and removes its apps when uninstall.removeApps is set", async () => {
  const labels = { ...managed, [INSTALLATION]: `${name}-berth-builds` };
  await kube.apply(kinds.Namespace, { metadata: { name: environment, labels } });
  await helm("uninstall", name, "-n", name, "--wait");
  const left = await eventually("nothing but what is kept is left", async () => {
    const found = await listLeftovers(kube, name);
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
  expect(await projects(await signIn())).toContain("kept");
  await helm("uninstall", name, "-n", name, "--wait");
  expect(await kube.get(kinds.Namespace, environment)).toBeUndefined();
  expect(await kube.get(kinds.Namespace, `${name}-berth-builds`)).toBeUndefined();
}, 900_000);

/** Makes a worker that sleeps, and deploys it. */
async function deployWorker(door: Door, services: string, service: string): Promise<void> {
  const command = `node -e 'process.once("SIGTERM", () => process.exit()); setInterval(() => {}, 1e6)'`;
  await door.must("POST", services, {
    name: service,
    type: "worker",
    config: { command, minReadySeconds: 0 },
  });
  await deployAgain(door, `${services}/${service}`, 1);
}

async function deployAgain(door: Door, service: string, version: number): Promise<void> {
  const accepted = await door.must<{ version: number }>("POST", `${service}/deploy`, {
    image: inject("clusterImages").node,
  });
  expect(accepted.version).toBe(version);
  expect(await settled(door, service, version)).toMatchObject({ status: "applied", errors: [] });
}

const registryOrigin = `http://${new URL(platform.origin).hostname}:${REGISTRY_PORT}`;

const registry = async (origin: string) => {
  const secret = await kube.get<V1Secret>(kinds.Secret, `${name}-berth-registry`, name);
  const password = Buffer.from(secret!.data!.password!, "base64").toString();
  return openRegistry(origin, password);
};

const appNamespaces = async () => {
  const labels = { ...managed, [INSTALLATION]: `${name}-berth-builds` };
  return (await kube.list(kinds.Namespace, { labels: selector(labels) })).items;
};

/** Returns the pods of the installation's apps, which differ when one was replaced or restarted. */
async function appPods(): Promise<string[]> {
  const pods = (await appNamespaces()).map(({ metadata }) =>
    kube.list<V1Pod>(kinds.Pod, { namespace: metadata!.name }),
  );
  return (await Promise.all(pods))
    .flatMap(({ items }) => items)
    .filter(({ metadata }) => !metadata!.deletionTimestamp)
    .map(
      ({ metadata, status }) =>
        `${metadata!.name} ${metadata!.uid} ${status?.containerStatuses?.[0]?.restartCount}`,
    )
    .sort();
}
