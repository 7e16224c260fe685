import { readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { loadYaml } from "@kubernetes/client-node";
import { makeRelease } from "./make.ts";
import { publish, readCredentials } from "./publish/publish.ts";
import { parseRegistry } from "./publish/registry.ts";
import { home } from "./settings.ts";
import { readSource, requireClean, requireTools } from "./source.ts";

const help = `npm run release -- [options]: makes everything that a release publishes, of the commit that is checked out

  --out DIR        where (default: dist/release); what is there is replaced
  --verify         make it twice, and compare every file
  --push REGISTRY  then push images and chart, which names the images there: ghcr.io/you, 127.0.0.1:5000
                   login: REGISTRY_USER and REGISTRY_PASSWORD, or docker's config.json (DOCKER_CONFIG)`;

const root = join(import.meta.dirname, "../..");

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(root, "dist/release") },
      verify: { type: "boolean", default: false },
      push: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(help);
  const registry = values.push ?? home;
  parseRegistry(registry);
  // Before minutes of work.
  const credentials = values.push === undefined ? {} : await readCredentials(process.env);
  await requireTools();
  await requireClean(root);
  const source = await readSource(root);
  const out = resolve(values.out);
  await makeRelease(source, registry, out);
  if (values.verify) await verify(out, () => makeRelease(source, registry, `${out}-again`));
  console.log(`Berth ${source.version} of ${source.revision}: ${out}`);
  if (values.push === undefined) return;
  const chart = loadYaml<{ version: string }>(await readFile(join(root, "helm/berth/Chart.yaml"), "utf8"));
  const given = { ...chart, version: source.version, appVersion: source.version };
  for (const { reference, digest, sent } of await publish(out, values.push, given, credentials))
    console.log(`${reference}@${digest}: ${sent === 0 ? "was there" : `${sent} parts sent`}`);
}

/** Makes the release again, and throws unless every file is the same. */
async function verify(out: string, again: () => Promise<void>): Promise<void> {
  await again();
  const read = async (folder: string) =>
    (await readFile(join(folder, "SHA256SUMS"), "utf8")).trim().split("\n");
  const [first, second] = [await read(out), await read(`${out}-again`)];
  const different = first.filter((line) => !second.includes(line)).map((line) => line.split("  ")[1]);
  if (different.length > 0 || first.length !== second.length)
    throw new Error(
      `Made twice, these files differ (the second is in ${out}-again):\n${different.join("\n")}`,
    );
  await rm(`${out}-again`, { recursive: true });
  console.log(`Made twice: all ${first.length} files are the same.`);
}

try {
  await run();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
