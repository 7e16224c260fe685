import { expect, test } from "vitest";
import { programFailure } from "./program-failure.ts";

const asked = (line: string, whole = true) => {
  const { name, message } = programFailure(
    `${line}\nDETAIL: Key (email)=(ada@example.com) exists.\n`,
    1,
    whole,
  );
  return name === "BackupRefusal" ? message : undefined;
};

test.each([
  ["error: query failed: ERROR:  permission denied for table theirs", "permission denied for table theirs"],
  [
    "error: could not execute query: ERROR:  permission denied to COPY to or from an external program",
    "permission denied to COPY to or from an external program",
  ],
  [
    'ERROR:  permission denied to create event trigger "watch"',
    'permission denied to create event trigger "watch"',
  ],
  ["ERROR:  must be owner of extension hstore", "must be owner of extension hstore"],
  ['ERROR:  must be able to SET ROLE "postgres"', 'must be able to SET ROLE "postgres"'],
  ['ERROR:  type "public.geometry" does not exist', 'type "public.geometry" does not exist'],
  [
    "ERROR:  function public.digest(text, unknown) does not exist",
    "function public.digest(text, unknown) does not exist",
  ],
  [
    'psql:<stdin>:12: ERROR:  unrecognized configuration parameter "transaction_timeout"',
    'unrecognized configuration parameter "transaction_timeout"',
  ],
  [
    'ERROR:  duplicate key value violates unique constraint "users_email_key"',
    'duplicate key value violates unique constraint "users_email_key"',
  ],
])("%s is told to whoever can change it", (line, told) =>
  expect(asked(line)).toBe(`The database refused it: ${told}.`),
);

test.each([
  'pg_dump: error: query failed: ERROR:  relation "public.gone" does not exist',
  'ERROR:  invalid input syntax for type integer: "a secret"',
  "connection to server failed: Connection refused",
])("%s is tried again, and not told", (line) => expect(asked(line)).toBeUndefined());

test("a dump that ends early is damaged if all of it was read, and tried again if it broke off on the way", () => {
  for (const line of [
    "pg_restore: error: could not read from input file: end of file",
    "pg_restore: error: could not uncompress data: incorrect data check",
  ]) {
    expect(asked(line)).toMatch(
      /^The backup is damaged, or a part of it is missing\. .* upload the whole dump again\.$/,
    );
    expect(asked(line, false)).toBeUndefined();
  }
});
