import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildPrograms, programPath } from "../../../deploy/cluster/node/programs.ts";
import { works } from "../../../deploy/cluster/run/commands.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually, testDatabase } from "../../../services/kit/testing/testing.ts";

/** Two minutes on a machine that does nothing else, the first time. */
const BUILD_MS = 20 * 60_000;

/** What Go prints when it cannot fetch a module. */
const UNREACHABLE = /dial tcp|no such host|proxyconnect|i\/o timeout|TLS handshake|GOPROXY|reading https?:/;

/**
 * Returns the program of an Ory Hydra, which is built from its Go module where it was not before. Without Go, or without
 * its module proxy, prints that and returns undefined.
 */
export async function findHydra(): Promise<string | undefined> {
  const program = await programPath("hydra");
  if (existsSync(program)) return program;
  const skip = (why: string) => console.log(`Skipped: OAuth with a real Ory Hydra. ${why}`);
  if (!(await works("go", ["version"]))) return void skip("There is no Go to build it with.");
  try {
    await buildPrograms(["hydra"], { signal: AbortSignal.timeout(BUILD_MS) });
    return program;
  } catch (error) {
    const lines = (error as Error).message.split("\n");
    const unreachable = lines.find((line) => UNREACHABLE.test(line));
    if (unreachable === undefined) throw error;
    return void skip(`Its module cannot be fetched: ${unreachable.trim()}`);
  }
}

export type HydraServer = Awaited<ReturnType<typeof startHydra>>;

type Options = { origin?: string; tokens?: "opaque" | "jwt"; host?: string };

/**
 * Starts Hydra on a database of its own, configured as operators are told (docs/oauth.md#ory-hydra) for an installation
 * at `origin`. Without one it is reached directly: its public URL is the origin. It listens at the address `host`.
 */
export async function startHydra(
  program: string,
  { origin, tokens = "opaque", host = "127.0.0.1" }: Options = {},
) {
  const [publicPort, adminPort] = [await freePort(), await freePort()];
  const publicUrl = `http://${host}:${publicPort}`;
  const database = await testDatabase([]);
  const folder = await mkdtemp(join(tmpdir(), "berth-hydra-"));
  const file = join(folder, "hydra.yml");
  await writeFile(file, documentedSettings(origin ?? publicUrl, tokens));
  const dsn = new URL(database.url(""));
  dsn.search = "sslmode=disable&max_conns=8";
  const env = {
    PATH: process.env.PATH,
    DSN: dsn.href,
    SECRETS_SYSTEM: randomBytes(16).toString("hex"),
    SQA_OPT_OUT: "true",
    SERVE_PUBLIC_HOST: host,
    SERVE_PUBLIC_PORT: String(publicPort),
    SERVE_ADMIN_HOST: host,
    SERVE_ADMIN_PORT: String(adminPort),
  };
  let output = "";
  const run = (...args: string[]): ChildProcess => {
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout!, child.stderr!])
      stream.on("data", (part) => (output = (output + part).slice(-4_000)));
    return child;
  };
  const [code] = await once(run("migrate", "sql", "-e", "--yes"), "exit");
  if (code !== 0) throw new Error(`Hydra could not migrate its database:\n${output}`);
  // It takes an origin that is not https in development alone.
  const https = origin?.startsWith("https:");
  const server = run("serve", "all", ...(https ? [] : ["--dev"]), "-c", file);
  const ended = once(server, "exit");
  const adminUrl = `http://${host}:${adminPort}`;
  const stop = async () => {
    server.kill("SIGKILL");
    await ended;
    await Promise.all([database.drop(), rm(folder, { recursive: true, force: true })]);
  };
  try {
    await eventually("Hydra is ready", async () => {
      if (server.exitCode !== null) throw new Error(`Hydra ended with code ${server.exitCode}:\n${output}`);
      return fetch(`${adminUrl}/health/ready`).then(
        (answer) => answer.ok,
        () => false,
      );
    });
    // Otherwise it makes RSA keys when a browser comes, which on a busy machine takes longer than a browser waits.
    for (const set of ["hydra.openid.id-token", "hydra.jwt.access-token"]) {
      const made = await fetch(`${adminUrl}/admin/keys/${set}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ alg: "ES256", use: "sig", kid: set }),
      });
      if (made.status !== 201) throw new Error(`Hydra made no key: ${made.status} ${await made.text()}`);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    publicUrl,
    adminUrl,
    /** Holds it: it takes connections and does not answer. */
    hold: () => void server.kill("SIGSTOP"),
    resume: () => void server.kill("SIGCONT"),
    stop,
  };
}

/** The settings that operators give Hydra, as the page has them, for another origin and kind of access token. */
function documentedSettings(origin: string, tokens: "opaque" | "jwt"): string {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/oauth.md"), "utf8");
  const [, settings] = /```yaml\n([^`]+)```/.exec(page)!;
  return settings!.replaceAll("https://berth.example.com", origin).replace("opaque", tokens);
}
