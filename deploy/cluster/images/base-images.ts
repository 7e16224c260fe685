import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { run, timed } from "../commands.ts";
import { withLock } from "../lock.ts";
import { programPath } from "../node/programs.ts";
import { folders, registry } from "../settings.ts";
import { push } from "./registry.ts";

/** The Debian of the images, and the newer one of those whose programs are too old in it. */
type Suite = "bookworm" | "trixie";
const debian = {
  packages: ["ca-certificates", "libstdc++6", "netbase"],
  without: ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*"],
};

/** The npm packages of Node and npm; the newest version of each major is used. */
const node = { [`node-linux-${process.arch}`]: "24", npm: "11" };

const hashOf = (...parts: string[]) =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
const baseFile = (suite: Suite) => join(folders.images, `${suite}-${hashOf(JSON.stringify(debian))}.tar`);
const nodeFile = () => join(folders.images, `node-${hashOf(JSON.stringify(node))}.tar`);

/** Fetches what the images are made of, unless it is there: a small Debian, and Node with npm. */
export async function fetchBases(): Promise<void> {
  await withLock(folders.images, async () => {
    for (const suite of ["bookworm", "trixie"] as const)
      if (!existsSync(baseFile(suite)))
        await timed(`Built a base system of ${suite}`, () => makeDebian(suite));
    if (!existsSync(nodeFile())) await timed("Fetched Node and npm", makeNode);
  });
}

async function makeDebian(suite: Suite): Promise<void> {
  const unfinished = join(folders.images, "unfinished.tar");
  const { packages, without } = debian;
  const excluded = without.map((path) => `--dpkgopt=path-exclude=${path}`);
  const included = `--include=${packages.join(",")}`;
  await run("mmdebstrap", ["-q", "--variant=minbase", ...excluded, included, suite, unfinished]);
  await rename(unfinished, baseFile(suite));
}

/** Packs Node and npm into `/usr/local`, as in the public Node images. */
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

/** `name:tag` of the base images in the cluster's registry. */
export type Bases = Record<"pause" | "base" | "trixie" | "node-slim" | "node", string>;

/**
 * Pushes the images that the cluster itself needs, and base images for others. `node` runs as uid 1000; `node-slim`
 * is like the public image of that name: it runs as root, and has npm.
 */
export async function pushBases(): Promise<Bases> {
  const from = (image: string) => `FROM ${registry.push}/${image}\n`;
  const image = (name: string, dockerfile: string, file?: string) =>
    push({
      name,
      tag: hashOf(dockerfile, file ? basename(file) : ""),
      dockerfile,
      files: file ? { [name]: file } : {},
    });
  const pause = await image(
    "pause",
    'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n',
    await programPath("pause"),
  );
  const system = (name: string, suite: Suite) =>
    image(name, `FROM scratch\nADD ${name} /\nCMD ["/bin/sh"]\n`, baseFile(suite));
  const base = await system("base", "bookworm");
  const trixie = await system("trixie", "trixie");
  const slim = await image("node-slim", `${from(base)}ADD node-slim /\n${user}CMD ["node"]\n`, nodeFile());
  const node = await image("node", `${from(slim)}USER 1000:1000\nWORKDIR /home/node\n`);
  return { pause, base, trixie, "node-slim": slim, node };
}

const user = "RUN groupadd -g 1000 node && useradd -u 1000 -g 1000 -m node\n";
