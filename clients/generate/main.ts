import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { apiOf } from "./api.ts";
import { readDocument } from "./document.ts";
import { typeName, typesOf } from "./types.ts";

// Writes what of the TypeScript client follows from the API's document; with --check, fails when that is stale.

const root = join(import.meta.dirname, "../..");
const folder = join(root, "clients/typescript/src/generated");
const HEAD = "// Generated from gateway/openapi.json by clients/generate. Do not edit.\n\n";

const document = await readDocument();
const { functions, refusals } = apiOf(document);
const used = Object.keys(document.components.schemas)
  .map(typeName)
  .filter((name) => new RegExp(`\\b${name}\\b`).test(functions));
const files = {
  "types.ts": typesOf(document),
  "refusals.ts": refusals,
  "api.ts": [
    'import type { Caller, CallOptions } from "../caller.ts";',
    'import { Pages } from "../pages.ts";',
    'import { type AccountAddress, type EnvironmentAddress, part, pathTo, type ProjectAddress, type ServiceAddress } from "../path.ts";',
    'import type { StreamEvent, StreamOptions } from "../streams.ts";',
    `import type { ${used.join(", ")} } from "./types.ts";\n`,
    functions,
  ].join("\n"),
};

for (const [name, text] of Object.entries(files)) {
  const file = join(folder, name);
  const made = await formatted(HEAD + text, file);
  if (!process.argv.includes("--check")) await writeFile(file, made);
  else if ((await readFile(file, "utf8").catch(() => "")) !== made) {
    process.stderr.write(`clients/typescript/src/generated/${name} is stale: run \`npm run generate\`.\n`);
    process.exitCode = 1;
  }
}

async function formatted(text: string, file: string): Promise<string> {
  const biome = join(root, "node_modules/.bin/biome");
  const { status, stdout, stderr } = spawnSync(biome, ["check", "--write", `--stdin-file-path=${file}`], {
    input: text,
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0 || stdout === "") throw new Error(`biome cannot format ${file}: ${stderr}`);
  return stdout;
}
