import { readFile } from "node:fs/promises";
import { basicAuth } from "../registry-auth.ts";

/** What a bcrypt hash considers, and what nobody guesses from a login of an account. */
const PASSWORD_BYTES = { min: 20, max: 72 };

export type PushLogin = { user: string; password: string };

/**
 * Returns the login for a registry's host in a docker configuration, the one with which builds push. Fails with a
 * sentence for the operator, without what the file holds.
 */
export function parsePushLogin(config: string, host: string): PushLogin {
  const [, user, password] = /^([^:]*):(.*)$/s.exec(decodeAuth(config, host)) ?? [];
  if (user === undefined || password === undefined)
    throw new Error(
      `The registry's Secret has no login for ${host}. Its .dockerconfigjson must be {"auths":{"${host}":{"auth":"<base64 of user:password>"}}}.`,
    );
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(user))
    throw new Error(
      `The user for ${host} in the registry's Secret must be 1 to 64 letters, digits, . _ or -.`,
    );
  const bytes = Buffer.byteLength(password);
  if (bytes < PASSWORD_BYTES.min || bytes > PASSWORD_BYTES.max)
    throw new Error(
      `The password for ${host} in the registry's Secret must have ${PASSWORD_BYTES.min} to ${PASSWORD_BYTES.max} bytes, such as the output of \`openssl rand -hex 24\`.`,
    );
  return { user, password };
}

function decodeAuth(config: string, host: string): string {
  try {
    const [, pair = ""] = basicAuth(config, host)?.split(" ") ?? [];
    return Buffer.from(pair, "base64").toString();
  } catch {
    return "";
  }
}

/** Returns the login in a file, as `parsePushLogin` does. */
export async function readPushLogin(file: string, host: string): Promise<PushLogin> {
  return parsePushLogin(await readFile(file, "utf8"), host);
}

/** Returns the keys of the accounts' logins where the operator gave the login that pushes, and so no keys. */
export function pullKeysOf({ password }: PushLogin): Buffer[] {
  return [Buffer.from(password)];
}
