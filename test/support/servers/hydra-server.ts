import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually, testDatabase } from "../../../services/kit/testing/testing.ts";
import { findGoProgram } from "./go-program.ts";

/** Returns the program of an Ory Hydra, or undefined, which is printed, where it cannot be built. */
export const findHydra = () => findGoProgram("hydra", "OAuth with a real Ory Hydra");

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
