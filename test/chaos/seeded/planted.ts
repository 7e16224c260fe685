import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { projectDir } from "../../../deploy/local/terminal/options.ts";
import { type Change, plant } from "./plant.ts";

/** The environment variable that tells `preload.ts`, or Vitest, what to plant. */
const VARIABLE = "BERTH_SEEDED_FAULT";

/** What is planted; `note` is a file to which each process adds what it planted. */
type Planted = { changes: Change[]; note: string };

/** Returns the environment with which programs plant changes as they load their files. */
export function environmentToPlant(changes: Change[], note: string): Record<string, string> {
  const preload = pathToFileURL(join(import.meta.dirname, "preload.ts")).href;
  const planted: Planted = { changes, note };
  return { NODE_OPTIONS: `--import ${preload}`, [VARIABLE]: JSON.stringify(planted) };
}

/**
 * Returns the function that returns a module's source with what this process is to plant in it; undefined for other
 * modules. Returns undefined where nothing is to be planted.
 */
export function plantOfEnvironment() {
  const given = process.env[VARIABLE];
  if (!given) return undefined;
  const { changes, note }: Planted = JSON.parse(given);
  const byUrl = Map.groupBy(changes, ({ file }) => pathToFileURL(join(projectDir, file)).href);
  return (url: string, source: () => string): string | undefined => {
    const own = byUrl.get(url);
    if (!own) return undefined;
    const planted = plant(source(), own);
    appendFileSync(note, `${own[0]!.file}\n`);
    return planted;
  };
}
