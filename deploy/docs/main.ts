import { spawnSync } from "node:child_process";
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const help = `npm run docs -- [options]: builds the documentation as static pages

  --out DIR          default: dist/docs
  --base PATH        where the site will be on its host, such as /0.1.0/ (default: /)
  --repository URL   where the source is; without it, files that are no pages have no links`;

const ROOT = join(import.meta.dirname, "../..");
const SITE = join(import.meta.dirname, "site");
/** The host of every example. */
const EXAMPLE = "https://berth.example.com/v1";

const { values } = parseArgs({
  options: {
    out: { type: "string", default: join(ROOT, "dist/docs") },
    base: { type: "string", default: "/" },
    repository: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) console.log(help);
else if (!/^\/(?:[\w.-]+\/)*$/.test(values.base)) {
  console.error(`--base must begin and end with a slash, such as /0.1.0/, not ${values.base}`);
  process.exitCode = 2;
} else {
  try {
    await build(resolve(values.out));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}

async function build(out: string): Promise<void> {
  if (!(await isInstalled())) run("npm", ["ci", "--no-audit", "--no-fund"], SITE);
  const env = { DOCS_ROOT: ROOT, DOCS_BASE: values.base, DOCS_REPOSITORY: values.repository };
  run(join(SITE, "node_modules/.bin/vitepress"), ["build", SITE, "--outDir", out], ROOT, env);
  await copyFile(join(ROOT, "clients/console/design/favicon.svg"), join(out, "favicon.svg"));
  await writeReference(join(out, "api"));
  console.log(`The site is in ${out}`);
}

/** Whether what the lock file names was installed, and the lock file was not changed since. */
async function isInstalled(): Promise<boolean> {
  const times = ["node_modules/.package-lock.json", "package-lock.json"].map((file) =>
    stat(join(SITE, file)),
  );
  const [installed, locked] = await Promise.allSettled(times);
  if (locked?.status !== "fulfilled") throw locked?.reason;
  return installed?.status === "fulfilled" && installed.value.mtimeMs >= locked.value.mtimeMs;
}

/** Writes the reference that an installation serves at /docs, without what needs an installation. */
async function writeReference(folder: string): Promise<void> {
  const page = join(ROOT, "gateway/docs/page");
  await mkdir(folder, { recursive: true });
  const document = JSON.parse(await readFile(join(ROOT, "gateway/openapi.json"), "utf8"));
  await writeFile(join(folder, "openapi.json"), JSON.stringify({ ...document, servers: [{ url: EXAMPLE }] }));
  for (const file of await readdir(page)) {
    const text = await readFile(join(page, file), "utf8");
    const lines = text.split("\n").filter((line) => !line.includes('id="token"'));
    const own = lines
      .join("\n")
      .replaceAll('"/docs/', '"./')
      .replaceAll('"/openapi.json"', '"./openapi.json"');
    await writeFile(join(folder, file === "reference.html" ? "index.html" : file), own);
  }
  await writeFile(join(folder, "try-it.js"), "export const tryView = () => undefined;\n");
}

function run(
  command: string,
  args: string[],
  cwd: string,
  env: Record<string, string | undefined> = {},
): void {
  const { status, error } = spawnSync(command, args, {
    cwd,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args[0]} ended with ${status}.`);
}
