import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { type Header, pack } from "tar-stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Builder,
  BuildFailure,
  type BuildRequest,
  type BuildResult,
  defaultBuildLimits,
  type GitBuildSource,
} from "../../../services/deployer/builder/port.ts";
import type { ObjectStore } from "../../../services/deployer/store/port.ts";
import type { GitServer } from "../../support/git-server.ts";

export type BuilderHarness = {
  builder: Builder;
  store: ObjectStore;
  /** A git server that builds can reach. */
  git: GitServer;
  /** What a build of this id has left anywhere: processes and files, by a name that helps to find them. */
  remains(buildId: string): Promise<string[]>;
  /** Starts what was built, asks `path` of it, stops it. */
  ask(
    result: BuildResult,
    path: string,
    env: Record<string, string>,
  ): Promise<{ status: number; body: string }>;
  close(): Promise<void>;
};

export type ArchiveEntry = Partial<Header> & { name: string; content?: string | Buffer };

/** A gzipped tarball of these entries, however wrong they are. */
export async function archiveOf(entries: ArchiveEntry[]): Promise<Buffer> {
  return gzipSync(await tarOf(entries));
}

export async function tarOf(entries: ArchiveEntry[]): Promise<Buffer> {
  const packed = pack();
  const chunks: Buffer[] = [];
  packed.on("data", (chunk) => chunks.push(chunk as Buffer));
  const ended = once(packed, "end");
  for (const { content, ...header } of entries) packed.entry(header, content ?? "");
  packed.finalize();
  await ended;
  return Buffer.concat(chunks);
}

/** The files of an example app, as a user packs them with `tar -C DIR .`. */
export function exampleApp(name: "node" | "python" | "static"): ArchiveEntry[] {
  const files = {
    node: ["server.js", "package.json"],
    python: ["main.py"],
    static: ["index.html", "style.css"],
  };
  const folder = join(import.meta.dirname, "../../apps", name);
  return files[name].map((file) => ({ name: `./${file}`, content: readFileSync(join(folder, file)) }));
}

/** The files of an example app, for a commit. */
export function exampleFiles(name: "node" | "python" | "static"): Record<string, string> {
  return Object.fromEntries(exampleApp(name).map((file) => [file.name.slice(2), String(file.content)]));
}

let builds = 0;

export async function requestOf(
  store: ObjectStore,
  archive: Buffer | ArchiveEntry[],
  changes: Partial<BuildRequest> = {},
): Promise<BuildRequest & { stages: string[]; lines: string[] }> {
  builds++;
  const key = `uploads/svc_1/${builds}.tgz`;
  await store.put(key, Array.isArray(archive) ? await archiveOf(archive) : archive, "application/gzip");
  const stages: string[] = [];
  const lines: string[] = [];
  return {
    buildId: `dep_${process.pid}x${builds}`,
    serviceId: "svc_1",
    type: "web",
    source: { kind: "archive", key },
    limits: defaultBuildLimits,
    port: 8080,
    timeoutMs: 120_000,
    onStage: (stage) => stages.push(stage),
    log: (line) => lines.push(line),
    ...changes,
    stages,
    lines,
  };
}

export const never = new AbortController().signal;

/** Archives that are refused, each with the code it is refused with. */
export async function badArchives(): Promise<[string, string, Buffer][]> {
  const file: ArchiveEntry = { name: "package.json", content: "{}" };
  const entries: [string, string, ArchiveEntry[]][] = [
    ["an absolute path", "archive_absolute_path", [{ name: "/etc/cron.d/evil", content: "x" }]],
    ["a path with ..", "archive_path_escapes", [{ name: "../evil", content: "x" }]],
    ["a path with .. in the middle", "archive_path_escapes", [{ name: "a/../../evil", content: "x" }]],
    [
      "a device",
      "archive_special_file",
      [{ name: "null", type: "character-device", devmajor: 1, devminor: 3 }],
    ],
    ["a block device", "archive_special_file", [{ name: "sda", type: "block-device", devmajor: 8 }]],
    ["a named pipe", "archive_special_file", [{ name: "pipe", type: "fifo" }]],
    [
      "a link to an absolute path",
      "archive_link_escapes",
      [{ name: "l", type: "symlink", linkname: "/etc/passwd" }],
    ],
    [
      "a link out of the archive",
      "archive_link_escapes",
      [{ name: "a/l", type: "symlink", linkname: "../../x" }],
    ],
    [
      "a link that leaves by way of another link",
      "archive_link_escapes",
      [
        { name: "b", type: "symlink", linkname: "." },
        { name: "l", type: "symlink", linkname: "b/../../x" },
      ],
    ],
    [
      "a file behind a link",
      "archive_through_link",
      [
        { name: "d/", type: "directory" },
        { name: "l", type: "symlink", linkname: "d" },
        { name: "l/evil", content: "x" },
      ],
    ],
    [
      "a folder in the place of a link",
      "archive_through_link",
      [
        { name: "l", type: "symlink", linkname: "d" },
        { name: "l/", type: "directory" },
      ],
    ],
    [
      "a hard link out of the archive",
      "archive_absolute_path",
      [{ name: "l", type: "link", linkname: "/etc/passwd" }],
    ],
    ["a hard link with ..", "archive_path_escapes", [{ name: "l", type: "link", linkname: "../passwd" }]],
    ["a hard link to nothing", "archive_link_escapes", [{ name: "l", type: "link", linkname: "missing" }]],
    [
      "a hard link to a link",
      "archive_link_escapes",
      [
        { name: "s", type: "symlink", linkname: "x" },
        { name: "l", type: "link", linkname: "s" },
      ],
    ],
    ["a file below a file", "archive_path_conflict", [file, { name: "package.json/x", content: "x" }]],
    ["a name that is too long", "archive_path_invalid", [{ name: `${"n".repeat(300)}`, content: "x" }]],
    ["nothing", "archive_empty", []],
    ["only its root", "archive_empty", [{ name: "./", type: "directory" }]],
  ];
  const whole = await archiveOf([
    file,
    { name: "noise", content: Buffer.from(Array.from({ length: 50_000 }, (_, n) => (n * n) % 251)) },
  ]);
  const tar = await tarOf([file, { name: "text", content: "some text ".repeat(1000) }]);
  const damaged = Buffer.from(tar);
  damaged.fill(7, 1024, 1100); // the second header
  return [
    ...(await Promise.all(
      entries.map(
        async ([what, code, list]) => [what, code, await archiveOf(list)] as [string, string, Buffer],
      ),
    )),
    ["bytes that are no gzip", "archive_not_gzip", Buffer.from("PK\x03\x04 this is a zip file")],
    ["a tarball without gzip", "archive_not_gzip", tar],
    ["gzip of something else", "archive_not_tar", gzipSync("hello, world")],
    ["gzip of a lot of something else", "archive_not_tar", gzipSync("hello, world ".repeat(1000))],
    ["a gzip cut short", "archive_truncated", whole.subarray(0, whole.length / 2)],
    [
      "a tarball cut short inside the gzip",
      "archive_truncated",
      gzipSync(tar.subarray(0, tar.length - 6000)),
    ],
    ["a damaged tarball", "archive_truncated", gzipSync(damaged)],
  ];
}

/** What every builder guarantees. The Kubernetes adapter passes the same. */
export function builderContract(name: string, open: () => Promise<BuilderHarness>): void {
  describe(`builder ${name}`, () => {
    let harness: BuilderHarness;
    beforeAll(async () => {
      harness = await open();
    });
    afterAll(() => harness.close());
    const failureOf = async (request: BuildRequest) => {
      const failure = await harness.builder.build(request, never).catch((error) => error);
      expect(failure).toBeInstanceOf(BuildFailure);
      expect(await harness.remains(request.buildId)).toEqual([]);
      return failure as BuildFailure;
    };

    for (const [app, runtime, answer] of [
      ["node", "node", "Ahoy"],
      ["python", "python", "Ahoy"],
      ["static", "static", "<h1>Hello!</h1>"],
    ] as const) {
      test(`the ${app} example app is detected, built and answers`, async () => {
        const request = await requestOf(harness.store, exampleApp(app));
        const result = await harness.builder.build(request, never);
        expect(result.runtime).toBe(runtime);
        expect(request.stages.slice(0, 3)).toEqual([
          "Fetching source",
          "Detecting runtime",
          "Building image",
        ]);
        expect(request.lines.join("\n")).not.toBe("");
        const { status, body } = await harness.ask(result, "/", { GREETING: "Ahoy" });
        expect(status).toBe(200);
        expect(body).toContain(answer);
        await harness.builder.removeArtifact(result.artifact, request.serviceId);
        expect(await harness.remains(request.buildId)).toEqual([]);
        await harness.builder.removeArtifact(result.artifact, request.serviceId);
      });
    }

    test("the same build again gives the same result", async () => {
      const request = await requestOf(harness.store, exampleApp("node"));
      const first = await harness.builder.build(request, never);
      expect(await harness.builder.build(request, never)).toEqual(first);
    });

    test("a cancelled build ends at once and leaves nothing", async () => {
      const script = `const { spawn } = require("node:child_process");
        const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" });
        child.unref(); console.log("compiling"); setInterval(() => {}, 1000);`;
      const pkg = { scripts: { build: "node build.js", start: "node server.js" } };
      const entries = [
        { name: "package.json", content: JSON.stringify(pkg) },
        { name: "build.js", content: script },
      ];
      const request = await requestOf(harness.store, entries);
      const cancel = new AbortController();
      const building = harness.builder.build(request, cancel.signal).catch((error) => error);
      while (!request.lines.includes("compiling")) await delay(20);
      expect(await harness.remains(request.buildId)).not.toEqual([]);
      const reason = new Error("a newer deployment came");
      cancel.abort(reason);
      expect(await building).toBe(reason);
      expect(await harness.remains(request.buildId)).toEqual([]);
    });

    test("a discarded build leaves nothing, begun or finished or never heard of", async () => {
      await harness.builder.discard("dep_never");
      const request = await requestOf(harness.store, exampleApp("node"));
      await harness.builder.build(request, never);
      await harness.builder.discard(request.buildId);
      await harness.builder.discard(request.buildId);
      expect(await harness.remains(request.buildId)).toEqual([]);
    });

    test("a build that takes too long fails with build_timeout", async () => {
      const pkg = { scripts: { build: "node -e 'setInterval(() => {}, 1000)'", start: "node ." } };
      const entries = [{ name: "package.json", content: JSON.stringify(pkg) }];
      const request = await requestOf(harness.store, entries, { timeoutMs: 1500 });
      expect(await failureOf(request)).toMatchObject({ stage: "build", code: "build_timeout" });
    });

    test("a failing build says which command failed, and its output is in the log", async () => {
      const pkg = { scripts: { build: "echo missing the frobnicator && exit 3", start: "node ." } };
      const request = await requestOf(harness.store, [
        { name: "package.json", content: JSON.stringify(pkg) },
      ]);
      const failure = await failureOf(request);
      expect(failure).toMatchObject({ stage: "build", code: "compile_failed" });
      expect(failure.message).toContain("npm run build");
      expect(request.lines).toContain("missing the frobnicator");
    });

    test("an archive that is not there fails at stage source", async () => {
      const request = await requestOf(harness.store, [], {
        source: { kind: "archive", key: "uploads/gone.tgz" },
      });
      expect(await failureOf(request)).toMatchObject({ stage: "source", code: "archive_missing" });
    });

    test("source in which nothing is detected fails and says what was looked for", async () => {
      const request = await requestOf(harness.store, [{ name: "notes.txt", content: "hello" }]);
      const failure = await failureOf(request);
      expect(failure).toMatchObject({ stage: "detect", code: "runtime_not_detected" });
      for (const looked of ["Procfile", "package.json", "requirements.txt", "index.html"]) {
        expect(failure.message).toContain(looked);
      }
    });

    test("every trick that an archive can play is refused by its code, and leaves nothing", async () => {
      for (const [what, code, archive] of await badArchives()) {
        const failure = await failureOf(await requestOf(harness.store, archive));
        expect([what, failure.stage, failure.code]).toEqual([what, "source", code]);
        expect(failure.message).toMatch(/\.$/);
      }
    });

    gitContract(() => harness);
    cacheContract(() => harness);

    test("an archive over the limits is refused while it is unpacked", async () => {
      const bomb = await archiveOf([{ name: "zeros", content: Buffer.alloc(20_000_000) }]);
      expect(bomb.length).toBeLessThan(100_000);
      const small = { unpackedBytes: 1_000_000, entries: 100 };
      const large = await requestOf(harness.store, bomb, { limits: small });
      expect(await failureOf(large)).toMatchObject({ stage: "source", code: "archive_too_large" });
      const padding = await requestOf(harness.store, gzipSync(Buffer.alloc(20_000_000)), { limits: small });
      expect(await failureOf(padding)).toMatchObject({ stage: "source", code: "archive_too_large" });
      const entries = Array.from({ length: 101 }, (_, n) => ({ name: `f${n}`, content: "" }));
      const many = await requestOf(harness.store, entries, { limits: small });
      expect(await failureOf(many)).toMatchObject({ stage: "source", code: "archive_too_many_entries" });
    });
  });
}

/** What every builder does with a git source. */
function gitContract(harness: () => BuilderHarness): void {
  const requestFor = (source: Partial<GitBuildSource>, changes: Partial<BuildRequest> = {}) =>
    requestOf(harness().store, [], {
      source: { kind: "git", repository: harness().git.url("app"), branch: "main", ...source },
      ...changes,
    });
  const failureOf = async (source: Partial<GitBuildSource>, changes: Partial<BuildRequest> = {}) => {
    const request = await requestFor(source, changes);
    const failure = await harness()
      .builder.build(request, never)
      .catch((error) => error);
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(await harness().remains(request.buildId)).toEqual([]);
    return { failure: failure as BuildFailure, request };
  };

  test("a branch is built and answers, its commit is told, and a later build sees the next commit", async () => {
    const { git, builder, ask } = harness();
    const commit = git.create("app", exampleFiles("node"));
    const commits: string[] = [];
    const request = await requestFor({}, { onCommit: (one) => commits.push(one) });
    const result = await builder.build(request, never);
    expect([result.runtime, result.commit, commits]).toEqual(["node", commit, [commit]]);
    expect(request.stages.slice(0, 3)).toEqual(["Fetching source", "Detecting runtime", "Building image"]);
    expect((await ask(result, "/", { GREETING: "from git" })).body).toContain("from git");

    const next = git.commit("app", { "site/index.html": "<h1>in a folder</h1>" });
    expect(await builder.build(request, never)).toEqual(result); // the same build
    const second = await builder.build(await requestFor({ contextDir: "site" }), never);
    expect([second.runtime, second.commit]).toEqual(["static", next]);
    expect((await ask(second, "/", {})).body).toContain("in a folder");
  });

  test("a private repository is built with its token, which neither log nor failure shows", async () => {
    const { git, builder } = harness();
    const token = "a-secret-of-the-contract";
    git.create("private", exampleFiles("static"));
    git.protect("private", token);
    const repository = git.url("private");
    const request = await requestFor({ repository, token });
    await builder.build(request, never);
    expect(request.lines.join("\n")).not.toContain(token);
    const without = await failureOf({ repository });
    expect(without.failure).toMatchObject({ stage: "source", code: "git_authentication_failed" });
    const wrong = await failureOf({ repository, token: `not-${token}` });
    expect(wrong.failure).toMatchObject({ stage: "source", code: "git_authentication_failed" });
    expect([wrong.failure.message, ...wrong.request.lines].join("\n")).not.toContain(token);
  });

  test("a git source that cannot be had fails at stage source, and says what is missing", async () => {
    const { git } = harness();
    git.create("app2", { "index.html": "x", "out/link": { link: "../../x" } });
    const of = async (source: Partial<GitBuildSource>, changes = {}) => {
      const { failure } = await failureOf({ repository: git.url("app2"), ...source }, changes);
      expect([failure.stage, failure.message]).toEqual(["source", expect.stringMatching(/\.$/)]);
      return failure.code;
    };
    expect(await of({ repository: git.url("nowhere") })).toBe("git_repository_not_found");
    expect(await of({ branch: "nowhere" })).toBe("git_branch_not_found");
    expect(await of({ contextDir: "nowhere" })).toBe("git_context_dir_not_found");
    expect(await of({})).toBe("archive_link_escapes");
    expect(await of({}, { limits: { unpackedBytes: 1_000_000, entries: 1 } })).toBe(
      "archive_too_many_entries",
    );
    expect(await of({ repository: `${git.origin}/hangs/a.git` }, { timeoutMs: 10_000 })).toBe("git_timeout");
    expect(await of({ repository: "file:///etc" })).toBe("source_invalid");
    expect(await of({ branch: "--upload-pack=x" })).toBe("source_invalid");
    expect(await of({ contextDir: "../x" })).toBe("source_invalid");
  });
}

/** What every builder keeps between the builds of a service. */
function cacheContract(harness: () => BuilderHarness): void {
  test("what is kept for a service can be removed, whether there is anything or not", async () => {
    const { builder, store } = harness();
    await builder.removeCaches("svc_never");
    const request = await requestOf(store, exampleApp("node"), { serviceId: "svc_caches" });
    const { artifact } = await builder.build(request, never);
    await builder.removeCaches("svc_caches");
    await builder.removeCaches("svc_caches");
    expect(await builder.build(request, never)).toMatchObject({ artifact });
  });
}
