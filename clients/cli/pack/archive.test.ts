import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pack } from "./archive.ts";
import { listFolder } from "./walk.ts";

let base: string;

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "berth-archive-"));
});

afterAll(() => rmSync(base, { recursive: true }));

const never = new AbortController().signal;

/** Writes a folder with all that an archive must keep. */
function example(name: string): string {
  const folder = join(base, name);
  const long = join("deep".repeat(20), "deeper".repeat(20));
  mkdirSync(join(folder, long), { recursive: true });
  mkdirSync(join(folder, "empty"));
  writeFileSync(join(folder, long, "file"), "far down");
  writeFileSync(join(folder, "naïve 😀\n.txt"), "names");
  writeFileSync(join(folder, "run.sh"), "#!/bin/sh\n");
  chmodSync(join(folder, "run.sh"), 0o750);
  writeFileSync(join(folder, "block"), "x".repeat(512));
  writeFileSync(join(folder, "nothing"), "");
  symlinkSync(`${long}/file`, join(folder, "link"));
  return folder;
}

async function bytesOf(folder: string): Promise<Buffer> {
  const archive = await pack(await listFolder(folder, { include: [], exclude: [] }), never);
  try {
    return Buffer.from(await archive.blob.arrayBuffer());
  } finally {
    await archive.remove();
  }
}

test("what tar unpacks is what was packed: names, contents, exec bits, links, empty folders", async () => {
  const folder = example("from");
  const file = join(base, "a.tgz");
  writeFileSync(file, await bytesOf(folder));
  const to = join(base, "to");
  mkdirSync(to);
  execFileSync("tar", ["-xzpf", file, "-C", to]);
  const tree = (at: string) =>
    (readdirSync(at, { recursive: true, encoding: "utf8" }) as string[]).sort().map((path) => {
      const about = lstatSync(join(at, path));
      const content = about.isFile() && readFileSync(join(at, path), "utf8");
      return [path, about.isSymbolicLink() ? readlinkSync(join(at, path)) : content, about.mode & 0o100];
    });
  expect(tree(to)).toEqual(tree(folder));
  expect(lstatSync(join(to, "run.sh")).mode & 0o777).toBe(0o755);
});

test("the same folder becomes the same bytes, whenever and by whomever its files were written", async () => {
  const [one, two] = [example("one"), example("two")];
  utimesSync(join(two, "block"), 1_000, 1_000);
  chmodSync(join(two, "block"), 0o600);
  const packed = await bytesOf(one);
  expect(await bytesOf(two)).toEqual(packed);
  writeFileSync(join(two, "block"), "y".repeat(512));
  expect(await bytesOf(two)).not.toEqual(packed);
});

test("a large archive lies in a temporary file, which is removed", async () => {
  const folder = join(base, "large");
  mkdirSync(folder);
  writeFileSync(join(folder, "zeros"), Buffer.alloc(9 * 1024 * 1024));
  const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith("berth-up-"));
  const before = left();
  const archive = await pack(await listFolder(folder, { include: [], exclude: [] }), never);
  expect(left().length).toBe(before.length + 1);
  const head = execFileSync("tar", ["-tvzf", "-"], { input: Buffer.from(await archive.blob.arrayBuffer()) });
  expect(String(head)).toContain("9437184");
  await archive.remove();
  expect(left()).toEqual(before);
});

test("a file that grows or shrinks while it is packed fails the packing, and no archive is sent", async () => {
  const folder = join(base, "changing");
  mkdirSync(folder);
  writeFileSync(join(folder, "log"), "12345");
  const listing = await listFolder(folder, { include: [], exclude: [] });
  for (const content of ["123456", "1234"]) {
    writeFileSync(join(folder, "log"), content);
    await expect(pack(listing, never)).rejects.toThrow("log changed while it was packed.");
  }
});
