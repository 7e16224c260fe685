import { WebhookDisabledSchema } from "../../../../proto/gen/berth/notifications/v1/events_pb.ts";
import type { Handler } from "../../../kit/events/handler.ts";
import { timeKey } from "../../notices/text.ts";
import { audienceOf } from "../../recipients/audience.ts";
import type { Directory } from "../../recipients/directory.ts";
import type { Announce } from "../announce.ts";

/** The handler of webhooks that were disabled because of their receivers. */
export function disabledHandler({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler {
  return announce(WebhookDisabledSchema, async ({ accountId, webhookId, host, reason, at }) => {
    const kind = "webhook.disabled";
    const { handle, members } = await directory.account(accountId);
    return [
      {
        kind,
        accountId,
        title: `A webhook of ${handle} was disabled`,
        body: `${WHY[reason] ?? WHY.failing} It sent events to ${host}, and sends none until an owner enables it again. What was not delivered can be replayed for 7 days.`,
        metadata: { account: handle, webhookId, host, reason },
        dedupe: `${webhookId}:${timeKey(at)}`,
        recipients: audienceOf(kind, members),
      },
    ];
  });
}

const WHY: Record<string, string> = {
  failing: "For three days its receiver accepted nothing.",
  gone: "Its receiver answered that it is gone (410).",
};
