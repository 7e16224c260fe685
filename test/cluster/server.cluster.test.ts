import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withAcme } from "../../deploy/cluster/settings.ts";
import { makeChart } from "../../deploy/release/parts/chart.ts";
import { makeServer } from "../../deploy/release/parts/server.ts";
import { pushChart } from "../../deploy/release/publish/push.ts";
import { openRegistry } from "../../deploy/release/publish/registry.ts";
import { readSource } from "../../deploy/release/source.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../support/apps.ts";
import { readRun } from "../support/cluster-run.ts";
import { openDoor } from "../support/door.ts";
import { selfSignedCertificate } from "../support/servers/certificate.ts";
import { ISSUER, startAcme, visit } from "./acme.ts";
import { connectKubectl, type Kubectl } from "./kubectl.ts";
import { testDomain } from "./setup/domain.ts";
import { valuesFor } from "./setup/install.ts";
import { reach } from "./setup/reach.ts";

// A release in a registry, and what a person does with it: docs/server.md#installing.

const root = join(import.meta.dirname, "../..");
const name = `server-${randomBytes(4).toString("hex")}`;
const domain = `${name}.${testDomain}`;
const appsDomain = `${name}-apps.${testDomain}`;
const platform = selfSignedCertificate(domain);
const apps = selfSignedCertificate(`*.${appsDomain}`);

let run: Awaited<ReturnType<typeof readRun>>;
let kubectl: Kubectl;
let folder: string;
/** The run's registry, at an address of this machine: there, releases are pushed without TLS. */
let loopback: Server;
/** Certificates come from an authority, if this run has one; else from the operator. */
let acme: Awaited<ReturnType<typeof startAcme>> | undefined;
let registry: string;

beforeAll(async () => {
  [run, kubectl] = await Promise.all([readRun(), connectKubectl()]);
  folder = await mkdtemp(join(tmpdir(), "berth-server-"));
  const [host, port] = run.registry.push.split(":");
  loopback = createServer((from) => {
    const to = connect(Number(port), host!);
    from.pipe(to).pipe(from);
    for (const one of [from, to]) one.on("error", () => from.destroy() && to.destroy());
  }).listen(0, "127.0.0.1");
  await once(loopback, "listening");
  registry = `127.0.0.1:${(loopback.address() as AddressInfo).port}`;
  await kubectl.call("create", "namespace", name);
  if (withAcme) acme = await startAcme(kubectl);
  const trusted = acme ? [acme.root] : [platform.cert, apps.cert];
  await writeFile(join(folder, "ca.pem"), trusted.join("\n"));
  for (const certificate of trusted)
    reach({ appsHost: run.ingress.address, certificate } as Parameters<typeof reach>[0]);
  for (const host of [domain, `objects.${appsDomain}`]) acme?.dns.set(host, { A: [run.ingress.address] });
  if (!acme)
    await kubectl.apply(
      tlsSecret(`${name}-tls`, name, platform),
      tlsSecret(`${name}-tls-object-store`, name, apps),
    );
});

afterAll(async () => {
  await server("uninstall", "--data", "--yes").catch(() => {});
  await kubectl?.call("delete", "namespace", name, "--ignore-not-found", "--wait=false");
  await acme?.stop();
  loopback?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

function tlsSecret(secret: string, namespace: string, { key, cert }: { key: string; cert: string }) {
  const metadata = { name: secret, namespace };
  const stringData = { "tls.key": key, "tls.crt": cert };
  return { apiVersion: "v1", kind: "Secret", type: "kubernetes.io/tls", metadata, stringData };
}

/** Runs berth-server of the release on a server whose files are below a folder. */
async function server(...args: string[]): Promise<string> {
  const env = {
    PATH: `${dirname(run.kubectl)}:${process.env.PATH}`,
    BERTH_ROOT: join(folder, "root"),
    CURL_CA_BUNDLE: join(folder, "ca.pem"),
    HOME: folder,
  };
  const script = join(folder, "release/server/berth-server");
  const { stdout } = await promisify(execFile)(script, [...args, "--name", name], { env });
  return stdout;
}

/** Copies an image of the run to where a release has it, and returns its digest. */
async function copyImage(image: "platform" | "builder", to: string): Promise<string> {
  const [repository, tag] = run.images[image].split(":");
  const { send } = openRegistry(registry, {});
  const accept =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
  const found = await send("GET", `/v2/${repository}/manifests/${tag}`, repository!, [], {
    headers: { accept },
  });
  const type = found.headers.get("content-type")!;
  const bytes = await found.text();
  const { config, layers } = JSON.parse(bytes) as {
    config: { digest: string };
    layers: { digest: string }[];
  };
  for (const { digest } of [config, ...layers])
    await send("POST", `/v2/${to}/blobs/uploads/?mount=${digest}&from=${repository}`, to, []);
  const headers = { "content-type": type };
  const put = await send("PUT", `/v2/${to}/manifests/${tag}`, to, [], { headers, body: () => bytes });
  return put.headers.get("docker-content-digest")!;
}

/** Makes a release of the images that this run has, and pushes it. */
async function pushRelease(): Promise<void> {
  const source = await readSource(root);
  const out = join(folder, "release");
  const digests = {
    berth: await copyImage("platform", `${name}/berth`),
    "berth-builder": await copyImage("builder", `${name}/berth-builder`),
  };
  const chart = await makeChart(source, `${run.registry.pull}/${name}`, digests, out);
  await makeServer(source, `${registry}/${name}`, chart, out);
  const metadata = { apiVersion: "v2", name: "berth", version: source.version };
  await pushChart(openRegistry(registry, {}), join(out, chart), `${name}/charts/berth`, metadata);
}

/** Writes what this cluster needs besides: its images of servers, its ingress, and where certificates of apps are. */
async function writeFiles(): Promise<void> {
  for (const path of ["run", "var/lib", "usr/local/bin"])
    await mkdir(join(folder, "root", path), { recursive: true });
  await symlink("/proc", join(folder, "root/proc"));
  const { image: _, publicUrl: __, owner: ___, smtp: ____, ...values } = await valuesFor(run, name);
  const own = {
    ...values,
    ingress: { className: run.ingress.className },
    objectStore: { server: values.objectStore.server },
    apps: {
      ...values.apps,
      domain: appsDomain,
      scheme: "https",
      ingress: { ...values.apps.ingress, ...(!acme && { tlsSecret: "apps-tls" }) },
    },
    builds: { ...values.builds, image: {} },
    uninstall: { removeApps: false },
  };
  await writeFile(join(folder, "own.json"), JSON.stringify(own));
}

/** Runs a program with the run's cluster. */
async function call(program: string, ...args: string[]): Promise<string> {
  const env = { KUBECONFIG: run.kubeconfig, HOME: folder };
  return (await promisify(execFile)(program, args, { env })).stdout;
}

test("one command installs a release from a registry by digest, and the same command again changes nothing", async () => {
  await pushRelease();
  await writeFiles();
  const names = ["--domain", domain, "--apps-domain", appsDomain, "--email", "owner@example.com"];
  const cluster = ["--kubeconfig", run.kubeconfig, "--issuer", acme ? ISSUER : "none"];
  const own = ["--values", join(folder, "own.json"), "--skip", "dns", "--address", run.ingress.address];
  const install = () => server("install", ...names, ...cluster, ...own);
  const history = () => call(run.helm, "history", name, "-n", name, "-o", "json");

  expect(await install()).toContain(`https://${domain}/signin`);
  const images = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
  const running = (await kubectl.call("get", "deployments", "-n", name, "-o", images)).split(" ");
  const ofRelease = new RegExp(`^${run.registry.pull}/${name}/berth@sha256:[0-9a-f]{64}$`);
  expect(new Set(running)).toEqual(new Set([expect.stringMatching(ofRelease)]));
  const before = await history();
  const again = await install();
  expect(again).toContain("unchanged");
  expect(again).not.toContain("signin");
  expect(await history()).toBe(before);
});

test("its owner deploys an app, which answers by https", async () => {
  for (const host of [domain, `objects.${appsDomain}`])
    await eventually(`${host} has a certificate`, () => fetch(`https://${host}/`).catch(() => false));
  const password = (await server("password")).trim();
  const session = await fetch(`https://${domain}/v1/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: "owner@example.com", password }),
  });
  const world = await openDoor(`https://${domain}`, ((await session.json()) as { token: string }).token);
  const { E, S: serviceOf } = await world.environment();
  const S = serviceOf("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const { version } = await deployArchive(world, S, await archiveOf("node"));
  expect(await settled(world, S, version)).toMatchObject({ errors: [] });
  const { hostname: host, protocol } = new URL((await world.must<{ url: string }>("GET", S)).url);
  expect(protocol).toBe("https:");
  acme?.dns.set(host, { A: [run.ingress.address] });
  if (!acme) await kubectl.apply(tlsSecret("apps-tls", await namespaceOfApps(), apps));
  const issuer = acme ? /^Pebble/ : new RegExp(appsDomain);
  await eventually("it answers by https", async () => {
    const found = await visit(host).catch(() => undefined);
    return found?.body.includes("Hello") && issuer.test(String(found.certificate.issuer.CN));
  });
});

async function namespaceOfApps(): Promise<string> {
  const ours = ["-l", `berth.dev/environment,berth.dev/installation=${name}-builds`];
  return kubectl.call("get", "namespaces", ...ours, "-o", "jsonpath={.items[0].metadata.name}");
}

test("doctor finds nothing wrong, and then the pod that is not ready", async () => {
  await expect.poll(() => server("doctor").catch(String)).toMatch(/^(?:[a-z]+: fine\n){7}$/);
  for (const replicas of [0, 1])
    await kubectl.call("scale", "deployment", `${name}-variables`, "-n", name, `--replicas=${replicas}`);
  const failed = await server("doctor").catch((error: { stdout: string }) => error.stdout);
  expect(failed).toMatch(new RegExp(`${name}-variables-.* is not ready\\. Next: kubectl`));
});

test("uninstall keeps keys, volumes and apps, and deletes them when told so", async () => {
  const environment = await namespaceOfApps();
  expect(await server("uninstall", "--yes")).toContain("are kept");
  await kubectl.call("get", "secret", `${name}-keys`, "-n", name);
  expect(await kubectl.call("get", "deployments", "-n", environment, "-o", "name")).toContain("web");
  await server("uninstall", "--yes", "--data");
  expect(await kubectl.call("get", "namespaces", "-o", "name")).not.toContain(name);
});
