import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { FOLDER_ORDER } from "./folder-order.ts";

// Each part imports from those before it: proto, kit, then the gateway and each service, then deploy, then test.
// Tests beside the code may also import from test/; other code imports no tests. Inside a part, folders have an order
// (folder-order.ts), which types follow too.

const root = join(import.meta.dirname, "../..");
const files = globSync(["{proto,services,gateway,deploy,clients,test}/**/*.{ts,tsx}"], {
  cwd: root,
  exclude: (path) => /(^|\/)(node_modules|test\/apps|\.berth|dist)$/.test(path),
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

test("the gateway, kit and every service have an order of their folders", () => {
  const parts = ["gateway", ...globSync("services/*", { cwd: root, exclude: ["services/node_modules"] })];
  expect(parts.filter((part) => FOLDER_ORDER[part] === undefined)).toEqual([]);
});

describe.each(Object.entries(FOLDER_ORDER))("%s", (part, { floors, exceptions = {} }) => {
  const floorOf = new Map(floors.flatMap((floor, n) => floor.split(" ").map((room) => [room, n] as const)));
  const roomOf = (file: string) => {
    const [first, ...below] = file.slice(part.length + 1).split("/");
    return below.length > 0 ? first! : first!.replace(/\.tsx?$/, "");
  };
  const inside = files.filter((file) => file.startsWith(`${part}/`) && !isTesting(file));
  const used = inside.flatMap((from) =>
    imports.get(from)!.flatMap((to) => (to.startsWith(`${part}/`) ? [[from, to] as const] : [])),
  );

  test("each folder is on a floor", () => {
    const rooms = new Set(inside.map(roomOf));
    expect([...rooms].filter((room) => !floorOf.has(room))).toEqual([]);
    expect([...floorOf.keys()].filter((room) => !rooms.has(room))).toEqual([]);
  });

  test("imports go down, types too", () => {
    const up = new Map<string, string[]>();
    for (const [from, to] of used) {
      const [above, below] = [roomOf(from), roomOf(to)];
      if (above === below || floorOf.get(above)! < floorOf.get(below)!) continue;
      const pair = `${above} → ${below}`;
      up.set(pair, [...(up.get(pair) ?? []), `${from} imports ${to}`]);
    }
    expect([...up].filter(([pair]) => !exceptions[pair]).flatMap(([, found]) => found)).toEqual([]);
    expect(Object.keys(exceptions).filter((pair) => !up.has(pair))).toEqual([]);
  });
});
