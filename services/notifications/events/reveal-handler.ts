import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { audienceOf, type Directory, nameOf } from "../notices/recipients.ts";
import type { Announce } from "./announce.ts";

/** Returns the handler of the audit records of the variables service: it tells owners what was revealed. */
export function revealHandler({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler {
  return announce(AuditRecordedSchema, async ({ id, accountId, action, actor, target, metadata }) => {
    if (action !== "variable.reveal") return [];
    const actorId = actor?.id ?? "";
    const [{ handle, members }, user] = await Promise.all([
      directory.account(accountId),
      directory.user(actorId),
    ]);
    const name = actor?.kind === "machine" ? `An application of ${nameOf(user)}` : nameOf(user);
    const kind = "security.variable_revealed";
    return [
      {
        kind,
        accountId,
        title: `${name} revealed ${target}`,
        body: `${name} read the value of ${target}, a variable of a ${metadata.scope} of ${handle}. The audit log has the details; replace the value if nobody was to see it.`,
        metadata: { ...metadata, account: handle, variable: target, userId: actorId },
        dedupe: id,
        recipients: audienceOf(kind, members, actorId),
      },
    ];
  });
}
