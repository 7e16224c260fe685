import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

// Each part imports from those before it: proto, kit, then the gateway and each service, then deploy, then test.
// Tests beside the code may also import from test/; other code imports no tests.

const root = join(import.meta.dirname, "../..");
const files = globSync(["{proto,services,gateway,deploy,test}/**/*.ts"], {
  cwd: root,
  exclude: (path) => /(^|\/)(node_modules|test\/apps|\.berth)$/.test(path),
});
const RELATIVE_IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g;
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): string[] {
  const paths = [...readFileSync(join(root, file), "utf8").matchAll(RELATIVE_IMPORT)].map(
    ([, path]) => path!,
  );
  return paths.map((path) => normalize(join(dirname(file), path)));
}

const partOf = (file: string) => file.split("/")[file.startsWith("services/") ? 1 : 0]!;
const isTesting = (file: string) => /^test\/|\.test\.ts$|testing/.test(file);

function mayImport(from: string, to: string): boolean {
  if (isTesting(to) && !isTesting(from)) return false;
  const [part, other] = [partOf(from), partOf(to)];
  if (part === other || part === "test") return true;
  if (other === "test") return isTesting(from);
  if (part === "deploy") return true;
  return other === "proto" || (other === "kit" && part !== "proto");
}

test("imports go one way", () => {
  const against = [...imports].flatMap(([from, all]) =>
    all.filter((to) => !mayImport(from, to)).map((to) => `${from} imports ${to}`),
  );
  expect(against).toEqual([]);
});

test.each([
  ["services/kit/log.ts", "services/identity/config.ts"],
  ["services/kit/testing/testing.ts", "deploy/local/nats/nats.ts"],
  ["services/identity/main.ts", "services/variables/main.ts"],
  ["services/identity/main.ts", "services/kit/testing/testing.ts"],
  ["gateway/main.test.ts", "services/identity/main.ts"],
  ["proto/service.ts", "services/kit/log.ts"],
  ["deploy/local/main.ts", "test/support/world.ts"],
])("%s may not import %s", (from, to) => {
  expect(imports.size).toBeGreaterThan(300);
  expect(mayImport(from, to)).toBe(false);
});
