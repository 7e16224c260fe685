import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Source } from "../source.ts";

/** Writes `server/berth-server`, which installs this release only. `chart` is its packed chart, a path below `out`. */
export async function makeServer(
  source: Source,
  registry: string,
  chart: string,
  out: string,
): Promise<void> {
  const script = await readFile(join(source.root, "deploy/server/berth-server"), "utf8");
  const sum = createHash("sha256")
    .update(await readFile(join(out, chart)))
    .digest("hex");
  await mkdir(join(out, "server"), { recursive: true });
  const given = { VERSION: source.version, REGISTRY: registry, CHART_SHA256: sum };
  await writeFile(join(out, "server/berth-server"), withRelease(script, given), { mode: 0o755 });
}

/** Returns the script with the values of a release. */
export function withRelease(script: string, given: Record<string, string>): string {
  return Object.entries(given).reduce((text, [name, value]) => {
    const empty = `\n${name}=""\n`;
    if (text.split(empty).length !== 2)
      throw new Error(`berth-server does not have ${name}="" exactly once.`);
    return text.replace(empty, `\n${name}="${value}"\n`);
  }, script);
}
