import { afterAll, beforeAll, expect, test } from "vitest";
import { deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world.stop());

/** What a build of this site sees, is its page. */
const site = [
  { name: "package.json", content: "{}" },
  {
    name: "make.js",
    content: `const fs = require("node:fs"); fs.mkdirSync("dist");
      fs.writeFileSync("dist/index.html", JSON.stringify(Object.fromEntries(
        Object.entries(process.env).filter(([name]) => /^(VITE|NEXT|DATABASE|PLAIN)_/.test(name)))));`,
  },
];

test("a site is built with the variables that are meant for it, and with none other", async () => {
  const { P, E, S: service } = await world.environment();
  const S = service("web");
  const env = { VITE_FROM_CONFIG: "config", VITE_TITLE: "of the configuration" };
  const config = { buildCommand: "node make.js", outputDirectory: "dist", env };
  await world.must("POST", `${E}/services`, { name: "web", type: "web", config });
  for (const [scope, body] of [
    [P, { name: "VITE_TITLE", value: "of the project" }],
    [P, { name: "VITE_API_URL", value: "https://api.example.com" }],
    [S, { name: "VITE_TITLE", value: "of the service" }],
    [S, { name: "NEXT_PUBLIC_API", aliasTarget: "VITE_API_URL" }],
    [S, { name: "VITE_TOKEN", aliasTarget: "VITE_SECRET" }],
    [S, { name: "VITE_SECRET", value: "nobody-may-read-this", sensitive: true }],
    [S, { name: "VITE_BOOK", value: "x".repeat(65_500) }],
    [S, { name: "DATABASE_URL", value: "not-for-a-site" }],
    [S, { name: "PLAIN_TEXT", value: "neither-is-this" }],
  ] as const)
    await world.must("POST", `${scope}/variables`, body);
  const archive = await archiveOf(site);
  const { version } = await deployArchive(world, S, archive);
  expect(await settled(world, S, version)).toMatchObject({ status: "applied" });
  const { url } = await world.must<{ url: string }>("GET", S);
  const page = async () => JSON.parse((await open(url)).body) as object;
  expect(await page()).toEqual({
    VITE_API_URL: "https://api.example.com",
    VITE_FROM_CONFIG: "config",
    VITE_TITLE: "of the service",
    NEXT_PUBLIC_API: "https://api.example.com",
  });
  const { logs } = await world.must<{ logs: string }>("GET", `${S}/deployments/${version}/build-logs`);
  expect(logs).toMatch(/^The build sees NEXT_PUBLIC_API, VITE_API_URL, VITE_FROM_CONFIG and VITE_TITLE\.$/m);
  expect(logs).toMatch(/^The build does not see VITE_SECRET and VITE_TOKEN, marked as sensitive/m);
  expect(logs).toMatch(/^The build does not see VITE_BOOK: such variables have at most 64 KiB together\.$/m);
  for (const value of ["nobody-may-read-this", "of the service"]) expect(logs).not.toContain(value);
});
