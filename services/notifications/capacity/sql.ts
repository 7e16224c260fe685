import { type Db, execute, many } from "../../kit/postgres/db.ts";
import type { Level, Resource } from "./level.ts";

/** Returns what was announced of a node; what never ran short is missing. */
export function listLevels(db: Db, node: string) {
  const text = "select resource, level from capacity_levels where node = $1";
  return many<{ resource: Resource; level: Level }>(db, "capacity_levels_list", text, [node]);
}

type Change = { node: string; resource: Resource; from: Level; to: Level };

/** Sets a level. Returns 0 if another process has changed it from `from` before. */
export function setLevel(db: Db, { node, resource, from, to }: Change): Promise<number> {
  return execute(
    db,
    "capacity_level_set",
    `insert into capacity_levels as l (node, resource, level) values ($1, $2, $4)
     on conflict (node, resource) do update set level = $4, changed_at = now() where l.level = $3`,
    [node, resource, from, to],
  );
}
