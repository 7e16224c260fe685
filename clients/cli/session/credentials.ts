import { randomBytes } from "node:crypto";
import { chmod, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { refused } from "../failure.ts";
import { withLock } from "./lock.ts";

/** How an origin was signed in to. */
export type Credential =
  | { kind: "token"; token: string }
  | {
      kind: "oauth";
      clientId: string;
      accessToken: string;
      refreshToken: string;
      /** ms since 1970 by this machine's clock, right or wrong: it was written by the same clock. */
      expiresAt: number;
      issuer: string;
      tokenEndpoint: string;
      revocationEndpoint?: string;
      resource: string;
    };

/** What the file holds. `current` is the origin that was signed in to last. */
export type Credentials = { version: 1; current?: string; origins: Record<string, Credential> };

/** Returns the file of the user's credentials. */
export function credentialsFile(env: Record<string, string | undefined> = process.env): string {
  const base = env.XDG_CONFIG_HOME?.startsWith("/") ? env.XDG_CONFIG_HOME : join(homedir(), ".config");
  return join(base, "berth", "credentials.json");
}

/** Reads the credentials; there are none before the first login. A file that others can read is closed to them. */
export async function readCredentials(file = credentialsFile()): Promise<Credentials> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { version: 1, origins: {} };
    throw error;
  }
  if (process.platform !== "win32" && ((await stat(file)).mode & 0o077) !== 0) await chmod(file, 0o600);
  try {
    const found = JSON.parse(text) as Partial<Credentials>;
    if (typeof found.origins === "object" && found.origins !== null)
      return { ...found, version: 1, origins: found.origins };
  } catch {}
  throw refused(`${file} is damaged.`, `rm ${file}, then berth login`);
}

/** Changes the credentials: one process at a time, and the file is whole whenever a process dies. */
export async function updateCredentials<T>(
  change: (credentials: Credentials) => T | Promise<T>,
  file = credentialsFile(),
): Promise<T> {
  const folder = dirname(file);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return withLock(`${file}.lock`, async () => {
    const credentials = await readCredentials(file);
    const result = await change(credentials);
    await replace(file, `${JSON.stringify(credentials, null, 2)}\n`);
    return result;
  });
}

async function replace(file: string, text: string): Promise<void> {
  const made = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    const handle = await open(made, "wx", 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(made, file);
  } catch (error) {
    await rm(made, { force: true });
    throw error;
  }
}
