import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Handler, on } from "../../kit/events/handler.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { Notice, Notify } from "../notices/notify.ts";

export type Announce = ReturnType<typeof announcer>;

/**
 * Returns the function that makes handlers of events: `toNotices` returns the notices of an event, asking other services
 * for what the event does not carry; `change` makes the further changes of the event, in the same transaction.
 */
export function announcer(notify: Notify) {
  return <S extends DescMessage>(
    schema: S,
    toNotices: (event: MessageShape<S>) => Promise<Notice[]>,
    change?: (tx: Tx, event: MessageShape<S>) => Promise<unknown>,
  ): Handler =>
    on<S, Notice[]>(schema, {
      prepare: toNotices,
      handle: async (tx, event, notices) => {
        for (const notice of notices) await notify(tx, notice);
        await change?.(tx, event);
      },
    });
}
