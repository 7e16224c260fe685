import { realpathSync } from "node:fs";
import { dirname } from "node:path";
import type { Sight } from "../../../../kit/process/walls.ts";

/** Returns what a server sees behind walls besides its own folders: its program, also where a link leads to it. */
export function sightOf(program: string, own: Pick<Sight, "cwd" | "read" | "write" | "tmp">): Sight {
  const tools = [dirname(program), dirname(realpathSync(program))];
  return { ...own, read: [...(own.read ?? []), ...tools], tools };
}
