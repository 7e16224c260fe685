import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { nameOf } from "../notices/text.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Announce } from "./announce.ts";

/** Returns the handler of the variables service's audit records: it notifies owners of revealed variables. */
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
    const recipients = audienceOf(kind, members, actorId);
    const common = { kind, accountId, recipients } as const;
    const { reveal, service = "", revealed = "", serviceId = "", ...place } = metadata;
    const isSet = reveal !== undefined && Number(revealed) > 1;
    const details = "The audit log has the details. If nobody should have seen";
    if (isSet)
      return [
        {
          ...common,
          title: `${name} revealed ${revealed} variables of ${service}`,
          body: `${name} read the values of all variables that ${service}, a service of ${handle}, receives; ${revealed} of them are sensitive. ${details} them, replace them.`,
          metadata: {
            projectId: place.projectId ?? "",
            serviceId,
            service,
            revealed,
            account: handle,
            userId: actorId,
          },
          // Of all records of the set together.
          dedupe: reveal,
        },
      ];
    return [
      {
        ...common,
        title: `${name} revealed ${target}`,
        body: `${name} read the value of ${target}, a variable of a ${metadata.scope} of ${handle}. ${details} the value, replace it.`,
        metadata: { ...place, account: handle, variable: target, userId: actorId },
        dedupe: id,
      },
    ];
  });
}
