import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { killHard, launch, moduleUrl } from "../testing.ts";
import { lockFolder } from "./folder-lock.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-lock-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("a taken folder is refused with the process and the URL of the one that has it", async () => {
  const lock = await lockFolder(dir);
  await lock.announce("http://127.0.0.1:4000");
  await expect(lockFolder(dir)).rejects.toMatchObject({
    kind: "folderTaken",
    message: expect.stringContaining(`in use by process ${process.pid} at http://127.0.0.1:4000`),
  });
  lock.release();
  (await lockFolder(dir)).release();
});

test("the lock of a killed process is free at once", async () => {
  const holder = await launch<string>(
    `import { lockFolder } from ${JSON.stringify(moduleUrl("data/folder-lock.ts"))};
     globalThis.lock = await lockFolder(${JSON.stringify(dir)}); // Kept: a collected lock is released.
     print("locked");`,
  );
  await expect(lockFolder(dir)).rejects.toMatchObject({
    kind: "folderTaken",
    message: expect.stringContaining(`process ${holder.process.pid}`),
  });
  await killHard(holder.process);
  (await lockFolder(dir)).release();
});

test("of many that come at once exactly one gets the folder", async () => {
  const attempt = `import { lockFolder } from ${JSON.stringify(moduleUrl("data/folder-lock.ts"))};
     const kept = (lock) => { globalThis.lock = lock; return true; };
     print(await lockFolder(${JSON.stringify(dir)}).then(kept, (error) => error.kind));`;
  const processes = await Promise.all([1, 2, 3, 4].map(() => launch<true | string>(attempt)));
  const answers = processes.map(({ value }) => value);
  await Promise.all(processes.map(({ process }) => killHard(process)));
  expect(answers.sort()).toEqual(["folderTaken", "folderTaken", "folderTaken", true].sort());
});
