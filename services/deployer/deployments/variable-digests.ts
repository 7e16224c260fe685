import { createHmac, randomBytes } from "node:crypto";
import type { Secrets } from "../secrets.ts";

type Variables = readonly { name: string; value: string }[];
/** `names` holds the digest of each name's value. */
type Digests = { salt: string; names: Record<string, string> };

const bound = (serviceId: string) => `applied variables ${serviceId}`;
const digestOf = (salt: string, name: string, value: string) =>
  createHmac("sha256", salt).update(`${name}\0${value}`).digest("base64url").slice(0, 22);

/** Seals the names of a set of variables with a salted digest of each value, and no value. */
export function sealDigests(secrets: Secrets, serviceId: string, variables: Variables): Buffer {
  const salt = randomBytes(16).toString("base64url");
  const names = variables.map(({ name, value }) => [name, digestOf(salt, name, value)]);
  const digests = { salt, names: Object.fromEntries(names) } satisfies Digests;
  return secrets.seal(JSON.stringify(digests), bound(serviceId));
}

/** Returns the names that a set of variables adds, changes and removes against sealed digests; without them all are new. */
export function compareDigests(
  secrets: Secrets,
  serviceId: string,
  sealed: Buffer | undefined,
  variables: Variables,
) {
  const { salt, names }: Digests = sealed
    ? JSON.parse(secrets.open(sealed, bound(serviceId)))
    : { salt: "", names: {} };
  const before = new Map(Object.entries(names));
  const after = variables.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const kept = new Set(after.map(({ name }) => name));
  return {
    added: after.filter(({ name }) => !before.has(name)).map(({ name }) => name),
    changed: after
      .filter(({ name, value }) => before.has(name) && before.get(name) !== digestOf(salt, name, value))
      .map(({ name }) => name),
    removed: [...before.keys()].filter((name) => !kept.has(name)).sort(),
  };
}
