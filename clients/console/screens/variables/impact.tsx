import { useQuery } from "@tanstack/react-query";
import { isRefusal, type ServiceAddress } from "../../../typescript/src/index.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { type ScopeName, scopeAt } from "./scopes.ts";

/** Which services a change of a variable at a wider scope reaches, before it is made. */
export function Impact({ at, scope, name }: { at: ServiceAddress; scope: ScopeName; name: string }) {
  const impact = useQuery({
    queryKey: ["impact", at.projectId, at.environmentId, scope, name],
    queryFn: () => berth.variables.impact(scopeAt(at, scope), name),
    enabled: scope !== "service" && name !== "",
    staleTime: 0,
  });
  if (scope === "service" || !impact.data) {
    // A variable that is not there yet reaches nobody.
    return impact.error && !isRefusal(impact.error, "not_found") ? (
      <p className="hint">{impact.error.message}</p>
    ) : null;
  }
  const { total, services } = impact.data;
  return (
    <p className="note" role="status">
      {total === 0
        ? texts.variables.impactNone
        : texts.variables.impact(total, services.map(({ name: service }) => service).join(", "))}
    </p>
  );
}
