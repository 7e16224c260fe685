import { spawnSync } from "node:child_process";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { type Entry, readTar, writeTar } from "./tar.ts";

const date = new Date(1_700_000_000_000);
const long = `app/${"a".repeat(120)}/${"b".repeat(90)}`;
const entries: Entry[] = [
  { kind: "file", path: long, mode: 0o644, data: Buffer.from("far below") },
  { kind: "link", path: "app/again", mode: 0o644, target: long, hardlink: true },
  { kind: "link", path: "app/link", mode: 0o777, target: "../etc" },
  { kind: "folder", path: "home/node", mode: 0o755, uid: 1000 },
  { kind: "file", path: "app/run", mode: 0o755, data: Buffer.alloc(0) },
];

test("an archive is the same in whatever order its entries come", async () => {
  const [one, other] = await Promise.all([
    buffer(writeTar(entries, date)),
    buffer(writeTar(entries.toReversed(), date)),
  ]);
  expect(one.equals(other)).toBe(true);
});

test("what is written is read again, with the folders that it is in", async () => {
  const read = await readTar(Readable.from(await buffer(writeTar(entries, date))));
  const named = new Map(read.map((entry) => [entry.path, entry]));
  expect(named.get(long)).toMatchObject({ kind: "file", data: Buffer.from("far below") });
  expect(named.get("app/again")).toMatchObject({ hardlink: true, target: long });
  expect(named.get("app/run")).toMatchObject({ mode: 0o755 });
  expect(named.get("home")).toMatchObject({ kind: "folder", mode: 0o755 });
  // A hard link leads to what an extracting program has by then.
  expect(read.at(-1)!.path).toBe("app/again");
});

test("tar sees one time, root as the owner unless told otherwise, and a capability where one is", async () => {
  const capability = Buffer.from("0100000280000000000000000000000000000000", "hex");
  const given: Entry[] = [
    ...entries,
    { kind: "file", path: "usr/bin/newuidmap", mode: 0o755, data: Buffer.from("x"), capability },
  ];
  const bytes = await buffer(writeTar(given, date));
  const options = ["--xattrs", "--xattrs-include=*", "--numeric-owner", "--full-time", "--utc", "-tvvf", "-"];
  const { stdout, status } = spawnSync("tar", options, { input: bytes, encoding: "utf8" });
  expect(status).toBe(0);
  const lines = stdout.split("\n").filter((line) => /^[-dlh]/.test(line));
  expect(lines.length).toBeGreaterThan(entries.length);
  expect(lines.filter((line) => !line.includes("2023-11-14 22:13:20"))).toEqual([]);
  expect(lines.filter((line) => !/ 0\/0 /.test(line)).map((line) => line.split(" ").at(-1))).toEqual([
    "home/node/",
  ]);
  expect(stdout).toMatch(/^-rwxr-xr-x\* .* usr\/bin\/newuidmap$/m);
  expect(bytes.includes(Buffer.concat([Buffer.from("security.capability="), capability]))).toBe(true);
});
