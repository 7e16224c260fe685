import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Handler, on } from "../../kit/events/handler.ts";
import { type DeliveryOptions, type Notice, notify } from "../notices/notify.ts";

export type Announce = ReturnType<typeof announcer>;

/**
 * Returns the function that makes handlers of events: `toNotice` returns what users are told of an event, asking other
 * services for what the event does not carry, or undefined when there is nothing to tell.
 */
export function announcer(options: DeliveryOptions) {
  return <S extends DescMessage>(
    schema: S,
    toNotice: (event: MessageShape<S>) => Promise<Notice | undefined>,
  ): Handler =>
    on<S, Notice | undefined>(schema, {
      prepare: toNotice,
      handle: async (tx, _event, notice) => {
        if (notice) await notify(tx, notice, options);
      },
    });
}
