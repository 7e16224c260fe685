import { timestampDate } from "@bufbuild/protobuf/wkt";
import { AccountDeletedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { on } from "../../kit/events/handler.ts";
import { execute } from "../../kit/postgres/db.ts";

/** Forgets what was told about an account that is deleted. That its members are none any more, they are told. */
export const accountDeletedHandler = on(AccountDeletedSchema, async (tx, { accountId, at }) => {
  if (!at) return;
  const text = "delete from notifications where account_id = $1 and created_at < $2";
  await execute(tx, "account_delete_notifications", text, [accountId, timestampDate(at)]);
});
