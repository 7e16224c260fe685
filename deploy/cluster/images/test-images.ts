import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { FETCHED_MAJOR } from "../../../services/deployer/addons/local/postgres/programs.ts";
import { type Program, programPath } from "../node/programs.ts";
import {
  registry,
  withAcme,
  withBuildpacks,
  withCloudNativePg,
  withEarlierCloudNativePg,
} from "../settings.ts";
import type { Bases } from "./base-images.ts";
import { fetchServer } from "./postgres-server.ts";
import { push } from "./registry.ts";

/** Stand-ins for public images, each with the programs and the files of this repository that it contains. */
const recipes = {
  postgres: { version: String(FETCHED_MAJOR), server: true },
  "postgres-15": { version: "15" },
  redis: { base: "trixie" },
  valkey: { base: "trixie" },
  pgbouncer: {},
  python: {},
  registry: { programs: ["registry"] },
  nats: { programs: ["nats-server"] },
  versitygw: { programs: ["versitygw"] },
  buildpacks: {
    programs: ["lifecycle", "launcher"],
    files: ["buildpack.toml", "order.toml", "detect.sh", "build.sh"],
    runImage: "node",
  },
  acmesolver: { programs: ["acmesolver"] },
  "cloudnative-pg": { programs: ["cloudnative-pg"] },
  "cloudnative-pg-earlier": { programs: ["cloudnative-pg-earlier"], like: "cloudnative-pg" },
  "plugin-barman-cloud": { programs: ["plugin-barman-cloud"] },
  "plugin-barman-cloud-sidecar": { programs: ["plugin-barman-cloud"] },
} satisfies Record<string, Contents>;

type Contents = {
  /** What it is built on, if not `base`. */
  base?: keyof Bases;
  /** The image whose Dockerfile it has. */
  like?: string;
  programs?: Program[];
  /** Files of the folder with the image's name. */
  files?: string[];
  /** Whether it contains PostgreSQL from the package that Berth fetches programs from. */
  server?: boolean;
  /** The image that what it builds runs in. */
  runImage?: keyof Bases;
  /** What its tag begins with: CloudNativePG reads there which PostgreSQL it has. */
  version?: string;
};

/** What only some runs have. */
const optional = {
  buildpacks: withBuildpacks,
  acmesolver: withAcme,
  "cloudnative-pg": withCloudNativePg,
  "cloudnative-pg-earlier": withEarlierCloudNativePg,
  "plugin-barman-cloud": withCloudNativePg,
  "plugin-barman-cloud-sidecar": withCloudNativePg,
};
type Optional = keyof typeof optional;
export type TestImages = Record<Exclude<keyof typeof recipes, Optional>, string> &
  Partial<Record<Optional, string>>;

/** Pushes the images that tests use instead of public ones; returns the `name:tag` of each. */
export async function pushTestImages(bases: Bases): Promise<TestImages> {
  const made: Partial<TestImages> = {};
  for (const [name, contents] of Object.entries(recipes) as [keyof TestImages, Contents][]) {
    if (name in optional && !optional[name as Optional]) continue;
    const dockerfile = await readFile(
      join(import.meta.dirname, `${contents.like ?? name}.Dockerfile`),
      "utf8",
    );
    const files = await filesOf(name, contents);
    const args = {
      BASE: `${registry.push}/${bases[contents.base ?? "base"]}`,
      ...(contents.runImage && { RUN_IMAGE: `${registry.push}/${bases[contents.runImage]}` }),
    };
    const texts = (contents.files ?? []).map((file) => readFile(files[file]!, "utf8"));
    const parts = JSON.stringify([dockerfile, files, args, ...(await Promise.all(texts))]);
    const hash = createHash("sha256").update(parts).digest("hex").slice(0, 16);
    const tag = contents.version === undefined ? hash : `${contents.version}-${hash}`;
    made[name] = await push({ name, tag, dockerfile, files, args });
  }
  return made as TestImages;
}

/** Returns where an image's files are, by their names in the build context. */
async function filesOf(
  name: string,
  { programs = [], files = [], server = false }: Contents,
): Promise<Record<string, string>> {
  const built = await Promise.all(programs.map(async (program) => [program, await programPath(program)]));
  const own = files.map((file) => [file, join(import.meta.dirname, name, file)]);
  const fetched = server ? [["postgresql.tar.gz", await fetchServer()]] : [];
  return Object.fromEntries([...built, ...own, ...fetched]);
}
