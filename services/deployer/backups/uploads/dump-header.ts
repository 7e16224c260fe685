import type { AddonType } from "../../terms/services.ts";

/** How much of a dump `dumpProblem` looks at. */
export const HEADER_BYTES = 512;

const CUSTOM = 1;
/** Of PGDMP, three bytes of its version, and the sizes of numbers and offsets. */
const FORMAT_AT = 10;

/** Returns why the bytes at the beginning of a file are not those of a dump for addons of a type, as a sentence. */
export function dumpProblem(type: AddonType, head: Buffer): string | undefined {
  return type === "postgres" ? postgresProblem(head) : redisProblem(head);
}

function postgresProblem(head: Buffer): string | undefined {
  const text = head.toString("latin1");
  if (text.startsWith("PGDMP") && head[FORMAT_AT] === CUSTOM) return undefined;
  if (text.startsWith("PGDMP") || /^toc\.dat\0/.test(text))
    return "This is a dump in another format than the custom one. Make one with pg_dump --format=custom.";
  if (head[0] === 0x1f && head[1] === 0x8b)
    return "This is compressed with gzip. Unpack it first: the custom format of pg_dump is compressed already.";
  if (/PostgreSQL database dump|^\s*(--|\\restrict |SET |CREATE |BEGIN)/.test(text))
    return "This is a dump in plain SQL. Make one with pg_dump --format=custom, or run it against the addon with psql.";
  return "This is not what pg_dump --format=custom writes.";
}

function redisProblem(head: Buffer): string | undefined {
  if (/^(REDIS|VALKEY)\d{3,4}/.test(head.toString("latin1"))) return undefined;
  return "This is not an RDB file, such as redis-cli --rdb writes.";
}
