import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";
import { defaultBuildLimits } from "../../../services/deployer/builder/port.ts";
import { unpackArchive } from "../../../services/deployer/builder/source/archive/unpack.ts";
import { type Bench, median } from "../row.ts";

const ROUNDS = 3;
const MEMORY = "/dev/shm";
const ROOM_BYTES = 2 * 1024 ** 3;
const FOLDERS = 1000;
const FILES = 100;

/**
 * Unpacking an archive of 100 000 small files as a build does, compared with `tar -xzf`, alternating. In memory, where there
 * is room: on some disks both take a minute, the one that comes second longer, and nothing is said about either.
 */
export const unpack: Bench = {
  names: ["unpack-100k"],
  run: async () => {
    const folder = await mkdtemp(join((await roomIn(MEMORY)) ? MEMORY : tmpdir(), "berth-bench-unpack-"));
    try {
      const archive = join(folder, "archive.tar.gz");
      await writeArchive(archive);
      const ratios: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const tar = await timed(folder, async (target) => {
          execFileSync("tar", ["-xzf", archive, "-C", target]);
        });
        const ours = await timed(folder, (target) =>
          unpackArchive(createReadStream(archive), target, { limits: defaultBuildLimits, tmp: folder }),
        );
        ratios.push(ours / tar);
      }
      return [{ name: "unpack-100k", value: median(ratios), unit: "x tar", goal: "<= 2" }];
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function roomIn(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => undefined);
  return found !== undefined && found.bavail * found.bsize > ROOM_BYTES;
}

/** Returns how long `work` takes in an empty folder, in ms. */
async function timed(folder: string, work: (target: string) => Promise<unknown>): Promise<number> {
  const target = join(folder, "target");
  await mkdir(target);
  const begun = performance.now();
  await work(target);
  const took = performance.now() - begun;
  await rm(target, { recursive: true });
  return took;
}

async function writeArchive(path: string): Promise<void> {
  const archive = pack();
  const written = pipeline(archive, createGzip(), createWriteStream(path));
  for (let folder = 0; folder < FOLDERS; folder++)
    for (let file = 0; file < FILES; file++) {
      const name = `${folder % 30}/${folder}/file-${file}.js`;
      const content = `module.exports = ${folder * FILES + file};\n`.repeat(1 + ((file * 7) % 60));
      await new Promise<void>((resolve, reject) =>
        archive.entry({ name }, content, (error) => (error ? reject(error) : resolve())),
      );
    }
  archive.finalize();
  await written;
}
