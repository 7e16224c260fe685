import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalInfo, localInfoIn } from "./local-info.ts";

const INFO = { origin: "http://127.0.0.1:4000", pid: 1 } as LocalInfo;
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-info-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

test("a stop leaves no file, whether it comes before, while, or after that is written", async () => {
  const before = localInfoIn(dir);
  await before.remove();
  await before.write(INFO);
  expect(await readdir(dir)).toEqual([]);
  const meanwhile = localInfoIn(dir);
  const writing = meanwhile.write(INFO);
  await meanwhile.remove();
  await writing;
  expect(await readdir(dir)).toEqual([]);
  const after = localInfoIn(dir);
  await after.write(INFO);
  expect(JSON.parse(await readFile(join(dir, "local.json"), "utf8"))).toEqual(INFO);
  await after.remove();
  expect(await readdir(dir)).toEqual([]);
});
