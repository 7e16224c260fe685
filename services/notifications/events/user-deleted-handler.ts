import { UserDeletedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { on } from "../../kit/events/handler.ts";
import { execute } from "../../kit/postgres/db.ts";

/** Tables with what is stored about a user. Of its mails that wait nothing is left to send. */
const TABLES = ["notifications", "preferences", "digests", "mail_bursts"];

/** Forgets a user who was deleted. */
export const userDeletedHandler = on(UserDeletedSchema, async (tx, { userId }) => {
  for (const table of TABLES)
    await execute(tx, `user_delete_${table}`, `delete from ${table} where user_id = $1`, [userId]);
});
