import { randomBytes } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { badArchives } from "../../../../../test/contracts/ports/builder/bad-archives.ts";
import { type ArchiveEntry, archiveOf, tarOf } from "../../../../../test/support/archives.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { findProcessesOf } from "../../../shared/process-tree.ts";
import { defaultBuildLimits } from "../../port.ts";
import { checkLink, splitPath } from "./path.ts";
import { unpackArchive } from "./unpack.ts";

let folder: string;
let target: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-unpack-"));
  target = join(folder, "a", "b", "target");
  mkdirSync(target, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const unpack = (archive: Buffer, limits = defaultBuildLimits) =>
  unpackArchive(Readable.from([archive]), target, { limits, tmp: folder });
const unpackEntries = async (entries: ArchiveEntry[]) => unpack(await archiveOf(entries));
const empty = async () => {
  await rm(target, { recursive: true, force: true });
  mkdirSync(target);
};
const text = (path: string) => readFileSync(join(target, path), "utf8");

describe("an archive", () => {
  test("of a working directory comes out as it was: files, folders, links, names of any length", async () => {
    const long = `${"deep/".repeat(40)}${"n".repeat(200)}.txt`;
    const unpacked = await unpackEntries([
      { name: "./", type: "directory" },
      { name: "./package.json", content: "{}" },
      { name: "./src//lib/./a.js", content: "a" },
      { name: "./empty/", type: "directory" },
      { name: "./empty.txt", content: "" },
      { name: "./ümläut and space.txt", content: "ü" },
      { name: `./${long}`, content: "far down" },
      { name: "./large.bin", content: Buffer.alloc(3_000_000, 7) },
      { name: "./bin/tool", type: "symlink", linkname: "../src/lib/a.js" },
      { name: "./same", type: "link", linkname: "./src/lib/a.js" },
    ]);
    expect(unpacked).toEqual({ entries: 10, bytes: 3_000_013, skipped: 0 });
    expect([text("package.json"), text("src/lib/a.js"), text("empty.txt"), text(long)]).toEqual([
      "{}",
      "a",
      "",
      "far down",
    ]);
    expect(text("ümläut and space.txt")).toBe("ü");
    expect(readFileSync(join(target, "large.bin")).equals(Buffer.alloc(3_000_000, 7))).toBe(true);
    expect(readdirSync(join(target, "empty"))).toEqual([]);
    expect(readlinkSync(join(target, "bin/tool"))).toBe("../src/lib/a.js");
    expect([text("bin/tool"), text("same")]).toEqual(["a", "a"]);
  });

  test("keeps the executable bit and nothing else of its modes", async () => {
    await unpackEntries([
      { name: "run", content: "x", mode: 0o6755 },
      { name: "plain", content: "x", mode: 0o1666 },
      { name: "locked", content: "x", mode: 0 },
      { name: "dir/", type: "directory", mode: 0o7000 },
    ]);
    const modes = ["run", "plain", "locked", "dir"].map((name) => statSync(join(target, name)).mode & 0o7777);
    expect(modes.map((mode) => mode & ~0o022)).toEqual(
      [0o755, 0o644, 0o644, 0o755].map((mode) => mode & ~0o022),
    );
  });

  test("without macOS's own entries, which are counted", async () => {
    const unpacked = await unpackEntries([
      { name: "./._index.html", content: "binary" },
      { name: "./index.html", content: "<p>" },
      { name: "./sub/._x", content: "binary" },
    ]);
    expect(unpacked.skipped).toBe(2);
    expect(readdirSync(target)).toEqual(["index.html"]);
  });

  test("with the same name twice holds what came last, and a file replaces a link instead of its target", async () => {
    await unpackEntries([
      { name: "file", content: "first" },
      { name: "other", content: "untouched" },
      { name: "link", type: "symlink", linkname: "other" },
      { name: "hard", type: "link", linkname: "other" },
      { name: "file", content: "second" },
      { name: "link", content: "own" },
      { name: "hard", content: "own too" },
      { name: "dir/", type: "directory" },
      { name: "dir/", type: "directory" },
    ]);
    expect([text("file"), text("other"), text("link"), text("hard")]).toEqual([
      "second",
      "untouched",
      "own",
      "own too",
    ]);
    expect(lstatSync(join(target, "link")).isFile()).toBe(true);
  });

  test("that is refused has written nothing outside of its folder", async () => {
    for (const [what, code, archive] of await badArchives()) {
      rmSync(target, { recursive: true, force: true });
      mkdirSync(target);
      const failure = await unpack(archive).catch((error) => error);
      expect([what, failure.code]).toEqual([what, code]);
      expect(readdirSync(join(folder, "a", "b"))).toEqual(["target"]);
      expect(readdirSync(join(folder, "a"))).toEqual(["b"]);
      expect(readdirSync(folder)).toEqual(["a"]);
    }
  });

  test("of 200 001 entries is refused, of 200 000 it is not", async () => {
    const one = (await tarOf([{ name: "./", type: "directory" }])).subarray(0, 512);
    const file = await tarOf([{ name: "f", content: "x" }]);
    const archive = (count: number) =>
      gzipSync(Buffer.concat([...Array(count).fill(one), file]), { level: 1 });
    expect((await unpack(archive(199_999))).entries).toBe(200_000);
    await expect(unpack(archive(200_000))).rejects.toMatchObject({ code: "archive_too_many_entries" });
  });

  test("whose folders are too many is refused, named or implied, and so are paths of more than 100", async () => {
    const inside = (depth: number) => `${"d/".repeat(depth)}f`;
    const implying = Array.from({ length: 11 }, (_, n) => ({ name: `${n}/${inside(95)}`, content: "" }));
    const archive = await archiveOf(implying);
    await expect(unpack(archive, { ...defaultBuildLimits, entries: 1000 })).rejects.toMatchObject({
      code: "archive_too_many_entries",
      message: "The archive has more than 1000 entries, including folders that are only implied.",
    });
    await empty();
    const limits = { ...defaultBuildLimits, entries: 103 };
    expect((await unpack(await archiveOf([{ name: inside(99), content: "" }]), limits)).entries).toBe(1);
    await empty();
    await expect(unpackEntries([{ name: inside(100), content: "" }])).rejects.toMatchObject({
      code: "archive_path_invalid",
      message: expect.stringMatching(/is nested more than 100 folders deep\.$/),
    });
  });

  test("that is refused for its size or its entries says so when it holds node_modules", async () => {
    const entries = ["package.json", "node_modules/a/index.js", "node_modules/b/index.js"].map((name) => ({
      name,
      content: "0123456789",
    }));
    const advice =
      / It contains node_modules: leave that out, because the build installs the packages itself\.$/;
    const few = unpack(await archiveOf(entries), { unpackedBytes: 1000, entries: 4 });
    await expect(few).rejects.toMatchObject({
      code: "archive_too_many_entries",
      message: expect.stringMatching(advice),
    });
    await empty();
    const small = unpack(await archiveOf(entries), { unpackedBytes: 25, entries: 100 });
    await expect(small).rejects.toMatchObject({
      code: "archive_too_large",
      message: expect.stringMatching(advice),
    });
  });

  test("whose unpacking process is killed fails, and one that cannot be read fails with that", async () => {
    const large = await archiveOf([{ name: "noise", content: randomBytes(1_000_000) }]);
    const stuck = new Readable({ read() {} });
    stuck.push(large.subarray(0, 500_000));
    const options = { limits: defaultBuildLimits, tmp: folder };
    const unpacking = unpackArchive(stuck, target, options);
    const outcome = expect(unpacking).rejects.toThrow(/SIGKILL|premature|EPIPE/i);
    const [found] = await eventually(
      "it runs",
      async () => findProcessesOf(folder).length > 0 && findProcessesOf(folder),
    );
    process.kill(found!.pid, "SIGKILL");
    await outcome;
    const broken = new Readable({
      read() {
        this.destroy(new Error("the store went away"));
      },
    });
    await expect(unpackArchive(broken, target, options)).rejects.toThrow("the store went away");
    expect(findProcessesOf(folder)).toEqual([]);
  });

  test("is not unpacked further once nobody wants it", async () => {
    const stop = new AbortController();
    const archive = await archiveOf([{ name: "a", content: "x" }]);
    const source = Readable.from(
      (async function* () {
        yield archive.subarray(0, 20);
        stop.abort(new Error("cancelled"));
        yield archive.subarray(20);
      })(),
    );
    await expect(
      unpackArchive(source, target, { limits: defaultBuildLimits, tmp: folder }, stop.signal),
    ).rejects.toThrow("cancelled");
  });
});

describe("paths of an archive", () => {
  const segment = fc.constantFrom("a", "b", "..", ".", "", "x y", "…");
  const path = fc.array(segment, { minLength: 1, maxLength: 8 }).map((segments) => segments.join("/"));

  test("are refused or lie inside, whatever they are", () => {
    fc.assert(
      fc.property(path, (name) => {
        let normal: string;
        try {
          normal = splitPath(name).join("/");
        } catch {
          return name.startsWith("/") || name.split("/").includes("..");
        }
        return join("/root", normal).startsWith("/root") && !normal.split("/").includes("..");
      }),
    );
  });

  test("of links are refused or lead inside, whatever other links there are", () => {
    fc.assert(
      fc.property(path, path, (name, linkname) => {
        let normal: string;
        try {
          normal = splitPath(name).join("/");
          checkLink(normal, linkname);
        } catch {
          return true;
        }
        // Wherever a name on the way leads, as long as it is inside, no “..” comes after it.
        const afterNames = linkname.split("/").filter((one) => one !== "" && one !== ".");
        const up = afterNames.filter((one) => one === "..").length;
        return (
          !linkname.startsWith("/") &&
          up <= normal.split("/").length - 1 &&
          afterNames.lastIndexOf("..") === up - 1
        );
      }),
    );
  });
});
