import { timestampDate } from "@bufbuild/protobuf/wkt";
import { AccountDeletedSchema, UserDeletedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import * as sql from "./sql.ts";

/** Handlers that delete what is stored about users and accounts that were deleted. */
export const erasureHandlers: Handler[] = [
  on(UserDeletedSchema, async (tx, { userId }) => {
    await sql.deleteOfUser(tx, userId);
  }),

  // Its members are still notified that they are members no longer.
  on(AccountDeletedSchema, async (tx, { accountId, at }) => {
    if (at) await sql.deleteOfAccount(tx, accountId, timestampDate(at));
  }),
];
