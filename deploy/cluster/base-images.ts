import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, link, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withLock } from "./lock.ts";
import { programPath } from "./programs.ts";
import { buildAndPush, isPushed } from "./registry.ts";
import { run, timed } from "./run.ts";
import { folders, registry } from "./settings.ts";

const debian = {
  suite: "bookworm",
  packages: ["ca-certificates", "libstdc++6", "netbase"],
  without: ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*"],
};

/** The newest of these major versions, from the packages in which npm's registry has them. */
const node = { [`node-linux-${process.arch}`]: "24", npm: "11" };

const hashOf = (...parts: string[]) =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
const baseTag = hashOf(JSON.stringify(debian));
const baseFile = () => join(folders.images, `debian-${baseTag}.tar`);
const nodeFile = () => join(folders.images, `node-${hashOf(JSON.stringify(node))}.tar`);

/** Fetch what the images are made of, where it is missing: a small Debian, and Node with npm. */
export async function fetchBases(): Promise<void> {
  await withLock(folders.images, async () => {
    if (!existsSync(baseFile())) await timed("Put together a base system", makeDebian);
    if (!existsSync(nodeFile())) await timed("Fetched Node and npm", makeNode);
  });
}

async function makeDebian(): Promise<void> {
  const unfinished = join(folders.images, "unfinished.tar");
  const { suite, packages, without } = debian;
  const excluded = without.map((path) => `--dpkgopt=path-exclude=${path}`);
  const included = `--include=${packages.join(",")}`;
  await run("mmdebstrap", ["-q", "--variant=minbase", ...excluded, included, suite, unfinished]);
  await rename(unfinished, baseFile());
}

/** `/usr/local` as the public Node images have it. */
async function makeNode(): Promise<void> {
  const work = await mkdtemp(join(folders.images, "node-"));
  try {
    const local = join(work, "usr", "local");
    const modules = join(local, "lib", "node_modules");
    await mkdir(join(local, "bin"), { recursive: true });
    await mkdir(join(modules, "npm"), { recursive: true });
    for (const [name, version] of Object.entries(node)) {
      const dir = join(work, name);
      await mkdir(dir);
      const [packed] = JSON.parse(await run("npm", ["pack", "--json", `${name}@${version}`], { cwd: dir }));
      const target = name === "npm" ? join(modules, "npm") : dir;
      await run("tar", ["xzf", join(dir, packed.filename), "-C", target, "--strip-components=1"]);
      if (name !== "npm") await rename(join(dir, "bin", "node"), join(local, "bin", "node"));
    }
    for (const name of ["npm", "npx"])
      await run("ln", ["-s", `../lib/node_modules/npm/bin/${name}-cli.js`, join(local, "bin", name)]);
    await run("tar", ["cf", join(work, "node.tar"), "--owner=0", "--group=0", "-C", work, "usr"]);
    await rename(join(work, "node.tar"), nodeFile());
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Images that the cluster itself needs, and that others build upon, as `name:tag` in its registry. `node` runs as
 * uid 1000; `node-slim` is like the public image of that name: it runs as root, and has npm.
 */
export async function pushBases(): Promise<void> {
  const pause = await programPath("pause");
  const from = `FROM ${registry.push}`;
  const user = "RUN groupadd -g 1000 node && useradd -u 1000 -g 1000 -m node";
  const nodeTag = hashOf(baseTag, await fileHash(nodeFile()));
  await push(
    "pause",
    pause.slice(-16),
    { pause },
    'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]',
  );
  await push("base", baseTag, { "base.tar": baseFile() }, 'FROM scratch\nADD base.tar /\nCMD ["/bin/sh"]');
  await push(
    "node-slim",
    nodeTag,
    { "node.tar": nodeFile() },
    `${from}/base:${baseTag}\nADD node.tar /\n${user}\nCMD ["node"]`,
  );
  await push("node", nodeTag, {}, `${from}/node-slim:${nodeTag}\nUSER 1000:1000\nWORKDIR /home/node`);
}

const fileHash = async (path: string) =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("hex");

/** Push an image unless the registry has it, under its own tag and as `:1`. */
async function push(
  name: string,
  tag: string,
  files: Record<string, string>,
  dockerfile: string,
): Promise<void> {
  const full = hashOf(tag, dockerfile);
  if ((await isPushed(`${name}:${full}`)) && (await isPushed(`${name}:1`))) return;
  const context = await mkdtemp(join(folders.images, "context-"));
  try {
    for (const [to, path] of Object.entries(files)) {
      await link(path, join(context, to)).catch(() => copyFile(path, join(context, to)));
    }
    await writeFile(join(context, "Dockerfile"), `${dockerfile}\n`);
    await timed(`Pushed ${registry.pull}/${name}:1`, () => buildAndPush(name, [full, tag, "1"], context));
  } finally {
    await rm(context, { recursive: true, force: true });
  }
}
