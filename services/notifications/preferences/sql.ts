import { type Db, execute, many } from "../../kit/postgres/db.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Choice } from "./preference.ts";

/** Returns the choices of users for a kind, by user. */
export async function findChoices(db: Db, kind: KindKey, userIds: string[]): Promise<Map<string, Choice>> {
  const rows = await many<Choice & { userId: string }>(
    db,
    "choices_find",
    `select user_id as "userId", channel, frequency from preferences where kind = $1 and user_id = any($2)`,
    [kind, userIds],
  );
  return new Map(rows.map(({ userId, ...choice }) => [userId, choice]));
}

/** Returns the choices of a user, by kind. */
export async function listChoices(db: Db, userId: string): Promise<Map<string, Choice>> {
  const text = "select kind, channel, frequency from preferences where user_id = $1";
  const rows = await many<Choice & { kind: string }>(db, "choices_list", text, [userId]);
  return new Map(rows.map(({ kind, ...choice }) => [kind, choice]));
}

export function setChoice(db: Db, userId: string, kind: KindKey, { channel, frequency }: Choice) {
  return execute(
    db,
    "choice_set",
    `insert into preferences (user_id, kind, channel, frequency) values ($1, $2, $3, $4)
     on conflict (user_id, kind) do update set channel = $3, frequency = $4`,
    [userId, kind, channel, frequency],
  );
}
