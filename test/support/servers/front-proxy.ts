import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { selfSignedCertificate } from "./certificate.ts";

/** A proxy in front of one machine: where it takes TLS, and the certificates by which clients trust it. */
export type FrontProxy = { port: number; ca: () => Promise<string>; stop: () => Promise<void> };

type Settings = { program: string; ports: { api: number; apps: number } };

/** Starts nginx with the configuration that operators are given, and a certificate of its own. */
export async function startNginx({ program, ports }: Settings): Promise<FrontProxy> {
  const dir = await mkdtemp(join(tmpdir(), "berth-nginx-"));
  const { key, cert } = selfSignedCertificate("berth.example.com", "*.apps.example.com");
  await writeFile(join(dir, "fullchain.pem"), cert);
  await writeFile(join(dir, "privkey.pem"), key);
  const port = await freePort();
  const site = documented("nginx", ports)
    .replaceAll("/etc/letsencrypt/live/berth.example.com", dir)
    .replace("listen 443", `listen 127.0.0.1:${port}`);
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  // A user that root may have chosen cannot read the folder.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const top = `daemon off; ${user} pid ${dir}/pid; error_log stderr; worker_processes 1; events {}`;
  const file = join(dir, "nginx.conf");
  await writeFile(file, `${top}\nhttp {\naccess_log off;\n${folders.join("\n")}\n${site}}\n`);
  return run(program, ["-p", dir, "-e", "stderr", "-c", file], { dir, port, ca: async () => cert });
}

/** Starts Caddy with the configuration that operators are given; its own authority issues the certificates. */
export async function startCaddy({ program, ports }: Settings): Promise<FrontProxy> {
  const dir = await mkdtemp(join(tmpdir(), "berth-caddy-"));
  const port = await freePort();
  const own = [
    "admin off",
    "local_certs",
    "skip_install_trust",
    `http_port ${await freePort()}`,
    `https_port ${port}`,
    "default_bind 127.0.0.1",
    // The UDP port of HTTP/3 is reserved with the other one.
    "servers {\n\t\tprotocols h1 h2\n\t}",
    `storage file_system ${dir}`,
  ];
  const file = join(dir, "Caddyfile");
  await writeFile(file, documented("caddyfile", ports).replace("{\n", `{\n\t${own.join("\n\t")}\n`));
  const ca = () => readFile(join(dir, "pki/authorities/local/root.crt"), "utf8");
  return run(program, ["run", "--config", file, "--adapter", "caddyfile"], { dir, port, ca });
}

/** Returns an example of the page, which sends requests to these ports. */
function documented(language: string, { api, apps }: Settings["ports"]): string {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/one-machine-proxy.md"), "utf8");
  const example = page.split(`\n\`\`\`${language}\n`)[1]!.split("\n```\n")[0]!;
  return `${example.replaceAll("127.0.0.1:4000", `127.0.0.1:${api}`).replaceAll("127.0.0.1:4001", `127.0.0.1:${apps}`)}\n`;
}

/** Whether a proxy proves that it is the API's host. */
function takesTls(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", servername: "berth.example.com", ca }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function run(
  program: string,
  args: string[],
  { dir, port, ca }: { dir: string; port: number; ca: () => Promise<string> },
): Promise<FrontProxy> {
  const env = { PATH: process.env.PATH, HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir };
  const child = spawn(program, args, { env, cwd: dir, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  let output = "";
  for (const stream of [child.stdout!, child.stderr!])
    stream.on("data", (part) => (output = (output + part).slice(-4_000)));
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(dir, { recursive: true, force: true });
  };
  try {
    await eventually(`${program} listens`, async () => {
      if (child.exitCode !== null) throw new Error(`${program} exited with ${child.exitCode}:\n${output}`);
      // Caddy listens before it has its first certificate.
      const trusted = await ca().catch(() => undefined);
      return trusted !== undefined && (await takesTls(port, trusted));
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, ca, stop };
}
