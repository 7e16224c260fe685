import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect, type PeerCertificate } from "node:tls";
import { promisify } from "node:util";
import { programPath } from "../../deploy/cluster/node/programs.ts";
import { ACME_DNS_PORT, logFile } from "../../deploy/cluster/settings.ts";
import { startDns } from "../../services/deployer/domains/testing.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { readRun } from "../support/cluster-run.ts";
import { selfSignedCertificate } from "../support/servers/certificate.ts";
import type { Kubectl } from "./kubectl.ts";

/** The ClusterIssuer of the cluster while the authority runs. */
export const ISSUER = "acme";
const PEBBLE_PORT = 14_000;
/** So short that cert-manager renews it while a test waits: at two thirds of it. */
export const VALID_SECONDS = 120;

/** Starts a certificate authority (Pebble), cert-manager beside the cluster, and the DNS server that both ask. */
export async function startAcme(kubectl: Kubectl) {
  const run = await readRun();
  const namespace = `cert-manager-${randomBytes(4).toString("hex")}`;
  const started: ChildProcess[] = [];
  const dns = await startDns({ address: run.host, port: ACME_DNS_PORT });
  const folder = await mkdtemp(join(tmpdir(), "berth-acme-"));

  /** Starts a program, whose output is with the logs of the node. */
  async function start(name: "cert-manager" | "pebble", args: string[], env: Record<string, string> = {}) {
    const child = spawn(await programPath(name), args, { env: { ...process.env, ...env } });
    const log = createWriteStream(logFile(name));
    child.stdout.pipe(log);
    child.stderr.pipe(log);
    await once(child, "spawn");
    started.push(child);
    // An interrupted run leaves none.
    process.once("exit", () => child.kill("SIGKILL"));
    return child;
  }

  async function startPebble(): Promise<ChildProcess> {
    const { key, cert } = selfSignedCertificate("localhost");
    const [certificate, privateKey, config] = ["cert.pem", "key.pem", "pebble.json"].map((file) =>
      join(folder, file),
    );
    await writeFile(certificate!, cert);
    await writeFile(privateKey!, key);
    const settings = {
      listenAddress: `127.0.0.1:${PEBBLE_PORT}`,
      managementListenAddress: `127.0.0.1:${PEBBLE_PORT + 1}`,
      ...{ certificate, privateKey, httpPort: 80, tlsPort: 443, ocspResponderURL: "" },
      profiles: { default: { description: "short", validityPeriod: VALID_SECONDS } },
    };
    await writeFile(config!, JSON.stringify({ pebble: settings }));
    const env = { PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0" };
    return start("pebble", ["-config", config!, "-dnsserver", dns.server], env);
  }

  /** Installs the kinds of cert-manager's module, and an issuer for all namespaces. */
  async function installIssuer(): Promise<void> {
    const module = "github.com/cert-manager/cert-manager";
    const cwd = join(import.meta.dirname, "../../deploy/cluster/go/cert-manager");
    const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", module], { cwd });
    const kinds = join((JSON.parse(stdout) as { Dir: string }).Dir, "deploy/crds");
    for (const file of (await readdir(kinds)).filter((name) => name.startsWith("crd-"))) {
      // Its labels are for Helm.
      const lines = (await readFile(join(kinds, file), "utf8")).split("\n");
      await writeFile(join(folder, file), lines.filter((line) => !line.includes("{{")).join("\n"));
      await kubectl.call("apply", "--server-side", "-f", join(folder, file));
    }
    await kubectl.call("wait", "--for=condition=Established", "crd/clusterissuers.cert-manager.io");
    await kubectl.call("create", "namespace", namespace);
    await kubectl.apply({
      apiVersion: "cert-manager.io/v1",
      kind: "ClusterIssuer",
      metadata: { name: ISSUER },
      spec: {
        acme: {
          server: `https://127.0.0.1:${PEBBLE_PORT}/dir`,
          skipTLSVerify: true,
          privateKeySecretRef: { name: "account" },
          solvers: [{ http01: { ingress: { serviceType: "ClusterIP" } } }],
        },
      },
    });
  }

  async function stop(): Promise<void> {
    for (const child of started) child.kill("SIGKILL");
    await kubectl.call("delete", "clusterissuer", ISSUER, "--ignore-not-found").catch(() => {});
    await kubectl.call("delete", "namespace", namespace, "--ignore-not-found", "--wait=false");
    await dns.stop();
    await rm(folder, { recursive: true, force: true });
  }

  try {
    const pebble = await startPebble();
    await installIssuer();
    await start("cert-manager", [
      ...[`--kubeconfig=${run.kubeconfig}`, "--leader-elect=false", "--metrics-listen-address=127.0.0.1:0"],
      ...[`--cluster-resource-namespace=${namespace}`, `--acme-http01-solver-nameservers=${dns.server}`],
      `--acme-http01-solver-image=${run.registry.pull}/${run.images.acmesolver}`,
    ]);
    return { dns, pebble, stop, root: await rootOfPebble() };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns the certificate that the authority's chains begin with, which it makes at each start. */
async function rootOfPebble(): Promise<string> {
  const origin = `https://127.0.0.1:${PEBBLE_PORT + 1}`;
  return eventually("Pebble answers", async () => {
    const asked = get(`${origin}/roots/0`, { agent: false, rejectUnauthorized: false });
    return text((await once(asked, "response"))[0]);
  });
}

/** Returns what the ingress answers at a host over TLS, and with which certificate. */
export async function visit(host: string): Promise<{ body: string; certificate: PeerCertificate }> {
  const { ingress } = await readRun();
  const socket = connect({ host: ingress.address, port: 443, servername: host, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const certificate = socket.getPeerCertificate();
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  let answer = "";
  for await (const part of socket.setEncoding("utf8")) answer += part;
  return { body: answer.slice(answer.indexOf("\r\n\r\n") + 4), certificate };
}
