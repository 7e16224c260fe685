import { expect, test } from "vitest";
import { dumpProblem } from "./dump-header.ts";

const pgdmp = (format: number) => Buffer.from([...Buffer.from("PGDMP"), 1, 16, 0, 4, 8, format]);

test.each([
  ["of pg_dump's custom format", "postgres", pgdmp(1), undefined],
  ["of its tar format", "postgres", Buffer.from("toc.dat\0\0\0"), "--format=custom"],
  ["of its directory format", "postgres", pgdmp(3), "--format=custom"],
  ["in plain SQL", "postgres", Buffer.from("--\n-- PostgreSQL database dump\n--\n"), "with psql"],
  ["in plain SQL of a newer version", "postgres", Buffer.from("\\restrict abc\nSET x = 1;"), "with psql"],
  ["compressed", "postgres", Buffer.from([0x1f, 0x8b, 8, 0]), "Unpack it first"],
  ["of redis", "postgres", Buffer.from("REDIS0011"), "not what pg_dump"],
  ["of redis", "redis", Buffer.from("REDIS0011\xfa"), undefined],
  ["of Valkey", "redis", Buffer.from("VALKEY080\xfa"), undefined],
  ["of commands", "redis", Buffer.from("*2\r\n$6\r\nSELECT"), "not an RDB file"],
  ["of postgres", "redis", pgdmp(1), "not an RDB file"],
  ["that is empty", "redis", Buffer.alloc(0), "not an RDB file"],
  ["that is cut", "postgres", Buffer.from("PGDMP"), "--format=custom"],
] as const)("a dump %s is recognised for a %s addon by its first bytes", (_, type, head, sentence) => {
  const problem = dumpProblem(type, head);
  if (sentence === undefined) expect(problem).toBeUndefined();
  else expect(problem).toContain(sentence);
});
