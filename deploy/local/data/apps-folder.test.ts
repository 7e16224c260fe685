import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { placeApps, projectAbove } from "./apps-folder.ts";
import { resetDataFolder, takeDataFolder } from "./data-folder.ts";

let clone: string;
let state: string;
beforeEach(async () => {
  const dir = await realpath(await mkdtemp(join(tmpdir(), "berth-apps-")));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  [clone, state] = [join(dir, "clone"), join(dir, "state")];
  await mkdir(join(clone, "node_modules"), { recursive: true });
});

/** Places the apps of a data folder as a start does; returns their folder, what was said, and the data folder. */
async function place(data = join(clone, ".berth")) {
  const { folder, lock } = await takeDataFolder(data);
  const said: string[] = [];
  const apps = await placeApps(folder, (sentence) => said.push(sentence), { XDG_STATE_HOME: state });
  lock.release();
  return { apps, said, folder };
}

async function build(apps: string, text: string): Promise<void> {
  await mkdir(join(apps, "artifacts/bld_1"), { recursive: true });
  await writeFile(join(apps, "artifacts/bld_1/berth.json"), text);
}
const built = (apps: string) => readFile(join(apps, "artifacts/bld_1/berth.json"), "utf8");

test("apps lie in the data folder unless a project lies above it; then beside, at the same place each time", async () => {
  const { apps, folder } = await place();
  expect(apps).toMatch(new RegExp(`^${state}/berth/clone-\\w{8}$`));
  expect(await readlink(folder.apps)).toBe(apps);
  expect(await place()).toMatchObject({ apps, said: [] });
  const other = await place(join(clone, "other"));
  expect(other.apps).not.toBe(apps);
  const own = await place(join(clone, "../elsewhere"));
  expect(own.apps).toBe(own.folder.deployer);
});

test("what was built before is moved, also after a move that was killed half-way", async () => {
  const data = join(clone, ".berth");
  await build(join(data, "deployer"), "before");
  const { apps } = await place();
  expect(await built(apps)).toBe("before");
  // Programs of Python's environments name each other by their former paths.
  expect(await built(join(data, "deployer"))).toBe("before");
  await build(join(data, "killed"), "half-way");
  await rename(join(data, "killed/artifacts"), join(data, "deployer/runtime"));
  expect((await place()).apps).toBe(apps);
  expect(await readdir(join(data, "deployer"))).toEqual(["artifacts"]);
  expect(await readdir(join(apps, "runtime"))).toEqual(["bld_1"]);
});

test("builds follow a data folder that is moved, a copy of one gets copies, and lost ones are named", async () => {
  const first = await place();
  await build(first.apps, "one");
  await rename(join(clone, ".berth"), join(clone, "moved"));
  const moved = await place(join(clone, "moved"));
  expect(moved.apps).toBe(first.apps);
  await cp(join(clone, "moved"), join(clone, "copy"), { recursive: true, verbatimSymlinks: true });
  const copy = await place(join(clone, "copy"));
  expect(copy.apps).not.toBe(first.apps);
  expect(await built(copy.apps)).toBe("one");
  await rm(copy.apps, { recursive: true });
  const lost = await place(join(clone, "copy"));
  expect(lost.said).toEqual([
    expect.stringContaining(`${copy.apps}, the folder of builds, no longer exists`),
  ]);
});

test("a reset deletes the builds of its own data folder alone", async () => {
  const [mine, other] = [await place(), await place(join(clone, "other"))];
  await build(other.apps, "other");
  await resetDataFolder(mine.folder);
  expect(await readdir(join(state, "berth"))).toEqual([other.apps.split("/").at(-1)]);
  expect(await built(other.apps)).toBe("other");
});

test("settings in the user's home hold for apps as for all else; packages there do not", async () => {
  const home = join(clone, "../home");
  const inHome = join(home, ".local/state/berth");
  await mkdir(inHome, { recursive: true });
  await writeFile(join(home, ".npmrc"), "");
  expect(await projectAbove(inHome, home)).toBeUndefined();
  await writeFile(join(home, "go.mod"), "");
  expect(await projectAbove(inHome, home)).toBe(join(home, "go.mod"));
});
