#!/usr/bin/env node
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

// What is published is JavaScript, built into dist/. In the repository there is none, and Node runs the TypeScript.
const built = new URL("../dist/cli/main.js", import.meta.url);
const source = new URL("../main.ts", import.meta.url);
const isRepository = existsSync(source);

if (isRepository && !process.features.typescript) {
  // The Node that `npm ci` brought, for a shell whose own is older.
  const { spawnSync } = await import("node:child_process");
  const node = fileURLToPath(new URL("../../../node_modules/.bin/node", import.meta.url));
  const { status } = spawnSync(node, process.argv.slice(1), { stdio: "inherit" });
  process.exitCode = status ?? 1;
} else {
  // Compiled code is kept between runs where Node can do that: half of what a start takes.
  const { enableCompileCache } = (await import("node:module")).default;
  enableCompileCache?.();
  const { main } = await import(isRepository ? source.href : built.href);
  await main(process.argv.slice(2));
}
