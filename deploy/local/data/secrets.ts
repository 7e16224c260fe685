import { randomBytes } from "node:crypto";
import { chmod, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeToken } from "../../../services/kit/crypto/bearer-token.ts";
import { StartFailure } from "../failure.ts";

/** The secrets of a data folder, generated once. */
export type Secrets = {
  /** Signs the caller's identity between processes; base64 of 32 bytes, comma separated, first signs. */
  internalKeys: string;
  /** `id:base64 of 32 bytes`, comma separated, first encrypts. */
  encryptionKeys: string;
  uploadKeys: string;
  /** Encrypts what the deployer keeps secret, such as passwords of addons. */
  secretKeys: string;
  ownerToken: string;
  ownerPassword: string;
  /** Password per database role. */
  databasePasswords: Record<string, string>;
};

/** Returns the path of a data folder's secrets. */
export const secretsFile = (data: string) => join(data, "secrets.json");

/**
 * Returns the secrets of a data folder, generated if `fresh`, which is when nothing was ever stored there.
 *
 * @throws StartFailure `folderDamaged` when data is there and they are missing or unreadable.
 */
export async function readSecrets(data: string, roles: string[], fresh: boolean): Promise<Secrets> {
  const file = secretsFile(data);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) {
    if (!fresh) throw damagedSecrets(file, "is missing");
    return addPasswords(makeSecrets(), roles, file);
  }
  try {
    const secrets: Secrets = JSON.parse(text);
    if (typeof secrets.encryptionKeys !== "string") throw new Error("it has no encryptionKeys");
    return await addPasswords(secrets, roles, file);
  } catch (cause) {
    throw damagedSecrets(file, "cannot be read", cause);
  }
}

function damagedSecrets(file: string, what: string, cause?: unknown): StartFailure {
  const sentence = `The file ${file} ${what}, and the data next to it cannot be read without it.`;
  return new StartFailure(
    "folderDamaged",
    `${sentence} Restore it, or start over with --reset, which deletes all data.`,
    { cause },
  );
}

function makeSecrets(): Secrets {
  const key = () => randomBytes(32).toString("base64");
  return {
    internalKeys: key(),
    encryptionKeys: `k${randomBytes(4).toString("hex")}:${key()}`,
    uploadKeys: key(),
    secretKeys: key(),
    ownerToken: makeToken("pat"),
    ownerPassword: randomBytes(15).toString("base64url"),
    databasePasswords: {},
  };
}

/** Adds passwords for roles that a newer version brings; the others stay. */
async function addPasswords(secrets: Secrets, roles: string[], file: string): Promise<Secrets> {
  const missing = roles.filter((role) => !secrets.databasePasswords[role]);
  if (missing.length === 0) return secrets;
  const passwords = missing.map((role) => [role, randomBytes(24).toString("base64url")]);
  const databasePasswords = { ...secrets.databasePasswords, ...Object.fromEntries(passwords) };
  const extended = { ...secrets, databasePasswords };
  await writeSafely(file, `${JSON.stringify(extended, null, 2)}\n`);
  return extended;
}

/** Returns the password that a file holds; undefined when there is none. */
export async function readPassword(file: string): Promise<string | undefined> {
  return (await readFile(file, "utf8").catch(() => "")).trim() || undefined;
}

/** Returns the password that a file holds, generated and stored there if there is none. */
export async function readOrCreatePassword(file: string): Promise<string> {
  const stored = await readPassword(file);
  if (stored !== undefined) return stored;
  // A letter first: the configuration language of NATS reads a bare digit as the start of a number.
  const password = `p${randomBytes(24).toString("hex")}`;
  await writeSafely(file, password);
  return password;
}

/**
 * Replaces a file atomically, with mode 0600: readers see the old content or the new, and from the return on the new,
 * also after the machine lost its power.
 */
export async function writeSafely(file: string, content: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.new`;
  const handle = await open(temporary, "w", 0o600);
  try {
    await chmod(temporary, 0o600);
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  const folder = await open(dirname(file));
  await folder.sync().finally(() => folder.close());
}
