import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { withAcme } from "../../deploy/cluster/settings.ts";
import { makeChart } from "../../deploy/release/parts/chart.ts";
import { makeServer } from "../../deploy/release/parts/server.ts";
import { pushChart } from "../../deploy/release/publish/push.ts";
import { openRegistry } from "../../deploy/release/publish/registry.ts";
import { readSource } from "../../deploy/release/source.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../support/apps.ts";
import { readRun } from "../support/cluster-run.ts";
import { type Door, openDoor } from "../support/door.ts";
import { selfSignedCertificate } from "../support/servers/certificate.ts";
import { ISSUER, startAcme, visit } from "./acme.ts";
import { connectKubectl } from "./kubectl.ts";
import { testDomain } from "./setup/domain.ts";
import { valuesFor } from "./setup/install.ts";
import { reach } from "./setup/reach.ts";

const PROJECT = join(import.meta.dirname, "../..");

/**
 * Pushes a release to the run's registry, and returns what a person does with it on servers, whose files are below folders
 * (docs/server.md#installing). Certificates come from an authority, if this run has one; else from the operator.
 */
export async function openRelease() {
  const name = `server-${randomBytes(4).toString("hex")}`;
  const domain = `${name}.${testDomain}`;
  const appsDomain = `${name}-apps.${testDomain}`;
  const platform = selfSignedCertificate(domain);
  const apps = selfSignedCertificate(`*.${appsDomain}`);
  const [run, kubectl] = await Promise.all([readRun(), connectKubectl()]);
  const folder = await mkdtemp(join(tmpdir(), "berth-server-"));
  const [host, port] = run.registry.push.split(":");
  // The run's registry, at an address of this machine: there, releases are pushed without TLS.
  const loopback = createServer((from) => {
    const to = connect(Number(port), host!);
    from.pipe(to).pipe(from);
    for (const one of [from, to]) one.on("error", () => from.destroy() && to.destroy());
  }).listen(0, "127.0.0.1");
  await once(loopback, "listening");
  const registry = `127.0.0.1:${(loopback.address() as AddressInfo).port}`;
  const acme = withAcme ? await startAcme(kubectl) : undefined;
  const trusted = acme ? [acme.root] : [platform.cert, apps.cert];
  await writeFile(join(folder, "ca.pem"), trusted.join("\n"));
  for (const certificate of trusted)
    reach({ appsHost: run.ingress.address, certificate } as Parameters<typeof reach>[0]);
  for (const one of [domain, `objects.${appsDomain}`]) acme?.dns.set(one, { A: [run.ingress.address] });

  /** Makes a release of the images that this run has, and pushes it. */
  async function push(): Promise<void> {
    const source = await readSource(PROJECT);
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

  /** Makes a server's files, and what this cluster needs besides: its images of servers, its ingress, the apps' TLS. */
  async function makeServerFiles(server: string): Promise<void> {
    for (const path of ["run", "var/lib", "usr/local/bin"])
      await mkdir(join(folder, server, path), { recursive: true });
    await symlink("/proc", join(folder, server, "proc"));
    const { image: _, publicUrl: __, owner: ___, smtp: ____, ...values } = await valuesFor(run, name);
    const own = {
      ...values,
      ingress: { className: run.ingress.className },
      objectStore: { server: values.objectStore.server },
      apps: {
        ...values.apps,
        // Where there is one, its keys are a Secret of the installation that tests share.
        addons: { ...values.apps.addons, archive: undefined },
        domain: appsDomain,
        scheme: "https",
        ingress: { ...values.apps.ingress, ...(!acme && { tlsSecret: "apps-tls" }) },
      },
      builds: { ...values.builds, image: {} },
      uninstall: { removeApps: false },
    };
    await writeFile(join(folder, "own.json"), JSON.stringify(own));
  }

  /** Runs berth-server of the release on a server. */
  async function berthServer(server: string, ...args: string[]): Promise<string> {
    const env = {
      PATH: `${dirname(run.kubectl)}:${process.env.PATH}`,
      BERTH_ROOT: join(folder, server),
      CURL_CA_BUNDLE: join(folder, "ca.pem"),
      HOME: folder,
    };
    const script = join(folder, "release/server/berth-server");
    const { stdout } = await promisify(execFile)(script, [...args, "--name", name], { env });
    return stdout;
  }

  function tlsSecret(secret: string, namespace: string, { key, cert }: { key: string; cert: string }) {
    const metadata = { name: secret, namespace };
    const stringData = { "tls.key": key, "tls.crt": cert };
    return { apiVersion: "v1", kind: "Secret", type: "kubernetes.io/tls", metadata, stringData };
  }

  async function namespaceOfApps(): Promise<string> {
    const ours = ["-l", `berth.dev/environment,berth.dev/installation=${name}-builds`];
    return kubectl.call("get", "namespaces", ...ours, "-o", "jsonpath={.items[0].metadata.name}");
  }

  return {
    ...{ name, domain, folder, run, kubectl, push, makeServerFiles, berthServer, namespaceOfApps },

    /** Makes the platform's namespace, with its certificates where no authority issues them. */
    async makeNamespace(): Promise<void> {
      await kubectl.call("create", "namespace", name);
      if (acme) return;
      await kubectl.apply(
        tlsSecret(`${name}-tls`, name, platform),
        tlsSecret(`${name}-tls-object-store`, name, apps),
      );
    },

    install(server: string): Promise<string> {
      const names = ["--domain", domain, "--apps-domain", appsDomain, "--email", "owner@example.com"];
      const cluster = ["--kubeconfig", run.kubeconfig, "--issuer", acme ? ISSUER : "none"];
      const own = ["--values", join(folder, "own.json"), "--skip", "dns", "--address", run.ingress.address];
      return berthServer(server, "install", ...names, ...cluster, ...own);
    },

    /** Runs a program with the run's cluster. */
    async call(program: string, ...args: string[]): Promise<string> {
      const env = { KUBECONFIG: run.kubeconfig, HOME: folder };
      return (await promisify(execFile)(program, args, { env })).stdout;
    },

    /** Signs the owner in by the password that a server prints, once the platform has its certificates. */
    async signIn(server: string): Promise<Door> {
      for (const one of [domain, `objects.${appsDomain}`])
        await eventually(`${one} has a certificate`, () => fetch(`https://${one}/`).catch(() => false));
      const password = (await berthServer(server, "password")).trim();
      const session = await fetch(`https://${domain}/v1/sessions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ email: "owner@example.com", password }),
      });
      return openDoor(`https://${domain}`, ((await session.json()) as { token: string }).token);
    },

    /** Deploys the example app as a new service; returns the path of that. */
    async deploy(door: Door): Promise<string> {
      const { E, S: serviceOf } = await door.environment();
      const S = serviceOf("web");
      await door.must("POST", `${E}/services`, { name: "web", type: "web" });
      const { version } = await deployArchive(door, S, await archiveOf("node"));
      const { errors } = await settled(door, S, version);
      if (errors.length > 0) throw new Error(JSON.stringify(errors));
      return S;
    },

    /** Resolves when the app answers by https; gives its host a certificate. */
    async answers(door: Door, S: string): Promise<void> {
      const { hostname, protocol } = new URL((await door.must<{ url: string }>("GET", S)).url);
      if (protocol !== "https:") throw new Error(`the app is at ${protocol}`);
      acme?.dns.set(hostname, { A: [run.ingress.address] });
      if (!acme) await kubectl.apply(tlsSecret("apps-tls", await namespaceOfApps(), apps));
      const issuer = acme ? /^Pebble/ : new RegExp(appsDomain);
      await eventually("it answers by https", async () => {
        const found = await visit(hostname).catch(() => undefined);
        return found?.body.includes("Hello") && issuer.test(String(found.certificate.issuer.CN));
      });
    },

    async close(server: string): Promise<void> {
      await berthServer(server, "uninstall", "--data", "--yes").catch(() => {});
      await kubectl.call("delete", "namespace", name, "--ignore-not-found", "--wait=false");
      await acme?.stop();
      loopback.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
