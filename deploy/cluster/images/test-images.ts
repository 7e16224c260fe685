import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Program, programPath } from "../node/programs.ts";
import { registry } from "../settings.ts";
import type { Bases } from "./base-images.ts";
import { push } from "./registry.ts";

/** Stand-ins for public images, each with the program of this repository that it contains, if any. */
const recipes = {
  postgres: undefined,
  redis: undefined,
  python: undefined,
  registry: undefined,
  nats: "nats-server",
  versitygw: "versitygw",
} satisfies Record<string, Program | undefined>;

export type TestImages = Record<keyof typeof recipes, string>;

/** Pushes the images that tests use instead of public ones; returns the `name:tag` of each. */
export async function pushTestImages(bases: Bases): Promise<TestImages> {
  const made: Partial<TestImages> = {};
  for (const [name, program] of Object.entries(recipes) as [keyof TestImages, Program | undefined][]) {
    const dockerfile = await readFile(join(import.meta.dirname, `${name}.Dockerfile`), "utf8");
    const files = program ? { [program]: await programPath(program) } : {};
    const args = { BASE: `${registry.push}/${bases.base}` };
    const parts = JSON.stringify([dockerfile, files, args]);
    const tag = createHash("sha256").update(parts).digest("hex").slice(0, 16);
    made[name] = await push({ name, tag, dockerfile, files, args });
  }
  return made as TestImages;
}
