import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BuildFailure } from "../../../../services/deployer/builder/build-failure.ts";
import type { BuildRequest } from "../../../../services/deployer/builder/port.ts";
import { archiveOf, exampleApp } from "../../../support/archives.ts";
import { badArchives } from "./bad-archives.ts";
import { gitContract } from "./git.ts";
import { type BuilderHarness, never, requestOf } from "./harness.ts";

/** What every builder guarantees. */
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

    const json = (name: string, content: object) => ({ name, content: JSON.stringify(content) });
    const answersWith = (body: string) =>
      `require("node:http").createServer((_, res) => res.end(${body})).listen(process.env.PORT)`;

    test("a site that a build makes is served, and its pages that the browser draws", async () => {
      const make = `const fs = require("node:fs"); fs.mkdirSync("out/assets", { recursive: true });
        fs.writeFileSync("out/index.html", "<h1>drawn</h1>"); fs.writeFileSync("out/assets/app-abcdef12.js", "1");`;
      const pkg = { scripts: { start: "node make.js --watch" } };
      const source = [json("package.json", pkg), { name: "make.js", content: make }];
      const settings = { buildCommand: "node make.js", outputDirectory: "out" };
      const request = await requestOf(harness.store, source, settings);
      const result = await harness.builder.build(request, never);
      expect(result.runtime).toBe("static");
      expect(await harness.ask(result, "/some/page", {})).toEqual({ status: 200, body: "<h1>drawn</h1>" });
      expect(await harness.ask(result, "/make.js", {})).toMatchObject({ status: 404 });
      await harness.builder.removeArtifact(result.artifact, request.serviceId);
      const wrong = { ...settings, outputDirectory: "dist" };
      const failure = await failureOf(await requestOf(harness.store, source, wrong));
      expect([failure.code, failure.message]).toEqual([
        "compile_failed",
        expect.stringContaining("dist/index.html"),
      ]);
    });

    test("a build sees the variables of a site as they are, and its log says which", async () => {
      const odd = `"quoted" 'once' $HOME \\ \${x} #\nsecond line `;
      const make = `const fs = require("node:fs"); fs.mkdirSync("out");
        fs.writeFileSync("out/index.html", JSON.stringify([process.env.VITE_ODD, process.env.VITE_EMPTY, process.env.VITE_KEY]));`;
      const source = [json("package.json", {}), { name: "make.js", content: make }];
      const site = {
        values: { VITE_ODD: odd, VITE_EMPTY: "" },
        sensitive: ["VITE_KEY"],
        large: ["VITE_BOOK"],
      };
      const settings = { site, buildCommand: "node make.js", outputDirectory: "out" };
      const request = await requestOf(harness.store, source, settings);
      const result = await harness.builder.build(request, never);
      expect(JSON.parse((await harness.ask(result, "/", {})).body)).toEqual([odd, "", null]);
      expect(request.lines).toContain("The build sees VITE_EMPTY and VITE_ODD.");
      const withheld = request.lines.filter((line) => line.startsWith("The build does not see"));
      expect(withheld).toEqual([
        expect.stringContaining("VITE_KEY, marked as sensitive"),
        expect.stringContaining("VITE_BOOK: such variables have at most 64 KiB"),
      ]);
      await harness.builder.removeArtifact(result.artifact, request.serviceId);
    });

    test("a package of a workspace is built with those that it depends on, a folder of its own without", async () => {
      const lib = `require("node:fs").writeFileSync("made.js", "module.exports = 'from the library'")`;
      const source = [
        json("package.json", { workspaces: ["packages/*"] }),
        json("packages/lib/package.json", {
          name: "lib",
          main: "made.js",
          scripts: { build: "node make.js" },
        }),
        { name: "packages/lib/make.js", content: lib },
        json("packages/web/package.json", {
          name: "web",
          scripts: { start: "node server.js" },
          dependencies: { lib: "*" },
        }),
        { name: "packages/web/server.js", content: answersWith('require("lib")') },
        { name: "other/index.html", content: "other" },
      ];
      for (const [rootDirectory, body] of [
        ["packages/web", "from the library"],
        ["./other/", "other"],
      ] as const) {
        const request = await requestOf(harness.store, source, { rootDirectory });
        const result = await harness.builder.build(request, never);
        expect(await harness.ask(result, "/", {})).toEqual({ status: 200, body });
        await harness.builder.removeArtifact(result.artifact, request.serviceId);
      }
      for (const rootDirectory of ["missing", "other/index.html"]) {
        const failure = await failureOf(await requestOf(harness.store, source, { rootDirectory }));
        expect([failure.stage, failure.code]).toEqual(["detect", "root_directory_missing"]);
      }
    });

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
      await harness.builder.discard({ buildId: "dep_never", accountId: "acc_1" });
      const request = await requestOf(harness.store, exampleApp("node"));
      await harness.builder.build(request, never);
      await harness.builder.discard(request);
      await harness.builder.discard(request);
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
      const archives = await badArchives();
      const refuse = async () => {
        for (let next = archives.pop(); next; next = archives.pop()) {
          const [what, code, archive] = next;
          const failure = await failureOf(await requestOf(harness.store, archive));
          expect([what, failure.stage, failure.code]).toEqual([what, "source", code]);
          expect(failure.message).toMatch(/\.$/);
        }
      };
      expect(archives.length).toBeGreaterThan(20);
      await Promise.all([refuse(), refuse(), refuse()]);
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

/** How every builder treats its caches of a service. */
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
