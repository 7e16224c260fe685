import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { putRestored, UNDO } from "./server-scripts.ts";

const MARK = "0123456789ab";
let data: string;
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), "berth-restored-"));
});
afterEach(() => rm(data, { recursive: true, force: true }));

/** Does what a pod does before its server starts, up to one of its commands that move or remove something. */
async function begin(restored: string, until = Number.POSITIVE_INFINITY): Promise<void> {
  const counted = ["mv", "rm", "mkdir"]
    .map(
      (name) =>
        `${name}() { n=$((n+1)); [ $n -gt ${Math.min(until, 99)} ] && exit 9; command ${name} "$@"; }`,
    )
    .join("\n");
  const script = `set -eu\nn=0\n${counted}\n${putRestored(data)}`;
  await promisify(execFile)("/bin/sh", ["-c", script], { env: { ...process.env, RESTORE: restored } }).catch(
    (error) => {
      if (error.code !== 9) throw error;
    },
  );
}

const put = async (name: string, content: string) => {
  await mkdir(join(data, name));
  await writeFile(join(data, name, "appendonly.aof"), content);
};
const has = async () => {
  const text = await readFile(join(data, "redis", "appendonly.aof"), "utf8").catch(() => "nothing");
  return [text, (await readdir(data)).filter((name) => name !== "redis").sort()];
};
const receive = (mark = MARK) => writeFile(join(data, `restore-${mark}.rdb`), "restored");

test.each(Array.from({ length: 8 }, (_, at) => at))(
  "a server that is killed at step %i of a restore starts from the backup, and keeps its data of before",
  async (step) => {
    await put("redis", "own");
    await receive();
    await begin(MARK, step);
    await begin(MARK);
    expect(await has()).toEqual(["restored", ["redis.before"]]);
    // Started again, with what it wrote since.
    await writeFile(join(data, "redis", "appendonly.aof"), "written");
    await begin(MARK);
    expect(await has()).toEqual(["written", ["redis.before"]]);
    await begin(`${MARK}${UNDO}`, step);
    await begin(`${MARK}${UNDO}`);
    expect(await has()).toEqual(["own", []]);
    await begin(`${MARK}${UNDO}`);
    expect(await has()).toEqual(["own", []]);
  },
);

test("a restore that never served is undone before the next, and what another one left is not taken", async () => {
  await put("redis", "unreadable");
  await put("redis.before", "own");
  await receive();
  await begin(MARK);
  expect(await has()).toEqual(["restored", ["redis.before"]]);
  expect(await readFile(join(data, "redis.before", "appendonly.aof"), "utf8")).toBe("own");
  await receive("another");
  await begin(MARK);
  expect(await has()).toEqual(["restored", ["redis.before"]]);
});

test("without a restore nothing changes, also on an empty volume", async () => {
  await begin("");
  expect(await readdir(data)).toEqual([]);
  await put("redis", "own");
  await begin("");
  expect(await has()).toEqual(["own", []]);
});
