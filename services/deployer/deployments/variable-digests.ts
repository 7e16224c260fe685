import { createHmac, randomBytes } from "node:crypto";
import type { Secrets } from "../secrets.ts";

type Values = Record<string, string>;
type Marks = { salt: string; names: Record<string, string> };

const bound = (serviceId: string) => `applied variables ${serviceId}`;
const markOf = (salt: string, name: string, value: string) =>
  createHmac("sha256", salt).update(`${name}\0${value}`).digest("base64url").slice(0, 22);

/** The names of a set of variables with a salted mark of each value, sealed: it holds no value. */
export function sealDigests(secrets: Secrets, serviceId: string, values: Values): Buffer {
  const salt = randomBytes(16).toString("base64url");
  const names = Object.entries(values).map(([name, value]) => [name, markOf(salt, name, value)]);
  return secrets.seal(JSON.stringify({ salt, names: Object.fromEntries(names) }), bound(serviceId));
}

/** Which names a set of variables adds, changes and removes against sealed marks; all are new without. */
export function compareDigests(
  secrets: Secrets,
  serviceId: string,
  sealed: Buffer | undefined,
  values: Values,
) {
  const { salt, names }: Marks = sealed
    ? JSON.parse(secrets.open(sealed, bound(serviceId)))
    : { salt: "", names: {} };
  const had = new Map(Object.entries(names));
  const now = Object.entries(values).sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    added: now.filter(([name]) => !had.has(name)).map(([name]) => name),
    changed: now
      .filter(([name, value]) => had.has(name) && had.get(name) !== markOf(salt, name, value))
      .map(([name]) => name),
    removed: [...had.keys()].filter((name) => !Object.hasOwn(values, name)).sort(),
  };
}
