import { randomBytes } from "node:crypto";
import { hash, verify } from "@node-rs/argon2";
import { invalid } from "../../kit/rpc/refusals.ts";

// argon2id (the library's default algorithm) with the parameters of docs/identity.md#passwords.
const COST = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
const MIN_LENGTH = 12;

/** Returns whether a password is shorter than 12 characters. */
export function isWeak(password: string): boolean {
  return [...normalize(password)].length < MIN_LENGTH;
}

/** Throws 422 for a new password that is too short. `path` names its member of the request. */
export function requireStrong(path: string, password: string): void {
  if (isWeak(password)) throw invalid(path, "weak_password", "A password must have at least 12 characters.");
}

/** Returns the argon2id hash of a password, with salt and parameters, as text. */
export function hashPassword(password: string): Promise<string> {
  return hash(normalize(password), COST);
}

export type PasswordCheck = (stored: string | undefined, password: string) => Promise<boolean>;

/**
 * Returns a check that takes equally long with and without a stored hash, so that its duration does not reveal which
 * e-mails have a user.
 */
export async function createPasswordCheck(): Promise<PasswordCheck> {
  const dummyHash = await hashPassword(randomBytes(24).toString("hex"));
  return async (stored, password) => {
    const matches = await verify(stored ?? dummyHash, normalize(password));
    return matches && stored !== undefined;
  };
}

// Keyboards compose accents differently; equal characters must be the same password.
function normalize(password: string): string {
  return password.normalize("NFKC");
}
