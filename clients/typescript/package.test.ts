import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const bin = join(import.meta.dirname, "../../node_modules/.bin");
/** A stranger's folder, into which the package as it is published is installed. */
const folder = mkdtempSync(join(tmpdir(), "berth-client-"));
const installed = join(folder, "node_modules/@berth/client");

beforeAll(() => {
  const source = join(folder, "source");
  const run = (file: string, args: string[]) => execFileSync(file, args, { cwd: source, stdio: "pipe" });
  mkdirSync(installed, { recursive: true });
  mkdirSync(source);
  cpSync(join(import.meta.dirname, "package.json"), join(source, "package.json"));
  run(join(bin, "tsc"), [
    "-p",
    join(import.meta.dirname, "tsconfig.build.json"),
    "--outDir",
    join(source, "dist"),
  ]);
  run("npm", ["pack", "--pack-destination", folder]);
  run("tar", ["xzf", globSync(join(folder, "*.tgz"))[0]!, "-C", installed, "--strip-components", "1"]);
});

afterAll(() => rmSync(folder, { recursive: true }));

test("the package is plain JavaScript that needs nothing else", async () => {
  const entry = pathToFileURL(join(installed, "dist/index.js")).href;
  const { Berth, isRefusal } = (await import(entry)) as typeof import("./src/index.ts");
  const answer = JSON.stringify({
    error: { code: "not_found", message: "No.", requestId: "r", details: [] },
  });
  const berth = new Berth({
    baseUrl: "https://berth.example.com/",
    fetch: async () => new Response(answer, { status: 404 }),
  });
  const refused = await berth.me.get().catch((error: unknown) => error);
  expect(isRefusal(refused, "not_found")).toBe(true);
  const imports = globSync("dist/**/*.js", { cwd: installed }).flatMap((file) =>
    [...readFileSync(join(installed, file), "utf8").matchAll(/from "([^"]+)"/g)].map(([, from]) => from!),
  );
  expect(imports.length).toBeGreaterThan(5);
  expect(imports.filter((from) => !/^\.{1,2}\/.*\.js$/.test(from))).toEqual([]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as object;
  expect(manifest).not.toHaveProperty("dependencies");
});

test("a strict program compiles with its types", () => {
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const program = join(folder, "program.ts");
  writeFileSync(
    program,
    `import { Berth, type Service } from "@berth/client";
    export const name = async (): Promise<string> => {
      const service: Service = await new Berth({ baseUrl: "" }).services.get({
        accountId: "a", projectId: "p", environmentId: "e", service: "s" });
      return service.name;
    };
    // @ts-expect-error: types have arrived.
    new Berth({ baseUrl: 1 });`,
  );
  const strict = [
    "--noEmit",
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--lib",
    "es2023,dom",
  ];
  const compile = ["--ignoreConfig", ...strict, program];
  expect(execFileSync(join(bin, "tsc"), compile, { cwd: folder, encoding: "utf8" })).toBe("");
});
