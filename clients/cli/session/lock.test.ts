import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readCredentials, updateCredentials } from "./credentials.ts";
import { withLock } from "./lock.ts";

let folder: string;
let file: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-lock-"));
  file = join(folder, "berth/credentials.json");
});

afterAll(() => rmSync(folder, { recursive: true }));

/** A program that changes the credentials again and again, and says so each time. */
const adding = (name: string, times = 10) => `
  import { updateCredentials } from ${JSON.stringify(join(import.meta.dirname, "credentials.ts"))};
  for (let n = 0; n < ${times}; n++) {
    await updateCredentials(({ origins }) => {
      origins["http://${name}-" + n] = { kind: "token", token: "t" };
    }, ${JSON.stringify(file)});
    console.log(n);
  }`;

function run(script: string) {
  return spawn(process.execPath, ["--input-type=module-typescript", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}

test("processes that change the credentials at once lose none of their changes, and leave nothing else behind", async () => {
  const children = ["a", "b", "c", "d"].map((name) => run(adding(name)));
  const codes = await Promise.all(children.map(async (child) => (await once(child, "exit"))[0]));
  expect(codes).toEqual([0, 0, 0, 0]);
  expect(Object.keys((await readCredentials(file)).origins).length).toBe(40);
  expect(readdirSync(join(folder, "berth"))).toEqual(["credentials.json"]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, "berth")).mode & 0o777).toBe(0o700);
});

test("a process that is killed at any moment leaves the file whole, and others do not wait for it", async () => {
  for (let n = 0; n < 5; n++) {
    const child = run(adding(`killed-${n}`, Number.POSITIVE_INFINITY));
    const gone = once(child, "exit");
    let said = "";
    for await (const text of child.stdout) {
      said += text;
      // It is in the middle of a change: it does nothing else.
      if (said.includes(`${n}\n`)) break;
    }
    child.kill("SIGKILL");
    await gone;
    await updateCredentials(({ origins }) => {
      origins.after = { kind: "token", token: String(n) };
    }, file);
    expect((await readCredentials(file)).origins.after).toEqual({ kind: "token", token: String(n) });
  }
});

test("a lock that is older than anything takes is taken away, from a process that runs as well", async () => {
  const lock = join(folder, "old.lock");
  writeFileSync(lock, `${process.pid} of-another\n`);
  utimesSync(lock, 1_000, 1_000);
  expect(await withLock(lock, async () => readFileSync(lock, "utf8"))).toContain(`${process.pid} `);
  expect(readdirSync(folder)).toEqual(["berth"]);
});

test("a lock without a pid, of a process that died while it made it, keeps nobody waiting", async () => {
  const lock = join(folder, "empty.lock");
  writeFileSync(lock, "");
  const before = Date.now() / 1000 - 10;
  utimesSync(lock, before, before);
  expect(await withLock(lock, async () => readFileSync(lock, "utf8"))).toContain(`${process.pid} `);
});

test("a damaged file is named, with what to do", async () => {
  const damaged = join(folder, "damaged.json");
  writeFileSync(damaged, '{"version":1');
  await expect(readCredentials(damaged)).rejects.toThrow(`${damaged} is damaged.`);
});
