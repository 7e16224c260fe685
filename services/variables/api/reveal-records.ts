import type { RevealedEntry } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { auditRecord } from "../../kit/events/audit.ts";
import type { OutboxEvent } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import type { Scope } from "../scopes/scope.ts";

/**
 * Returns an audit record for each sensitive variable of a revealed set, with the scope that it comes from. `reveal` is
 * the same in all of them, so that they can be told of as one.
 */
export function revealRecords(
  by: Parameters<typeof auditRecord>[0],
  { accountId, projectId, environmentId = "", id: serviceId }: Scope,
  service: string,
  data: RevealedEntry[],
): OutboxEvent[] {
  const sensitive = data.filter((entry) => entry.sensitive);
  const reveal = newId("rvl");
  return sensitive.map(({ name: target, source: scope, sourceScopeId: scopeId }) => {
    const of: Record<string, string> = {
      scope,
      scopeId,
      projectId,
      ...(scope !== "project" && { environmentId }),
    };
    const metadata = { ...of, serviceId, service, reveal, revealed: String(sensitive.length) };
    return auditRecord(by, { service: "variables", accountId, action: "variable.reveal", target, metadata });
  });
}
