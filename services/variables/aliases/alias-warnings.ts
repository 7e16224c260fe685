import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AliasWarningSchema } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Db } from "../../kit/postgres/db.ts";
import * as sql from "../rows/alias-sql.ts";
import { chainOf, type Scope } from "../scopes/scope.ts";
import { listServicesIn } from "../scopes/sql.ts";
import { cycleThrough } from "./alias-cycle.ts";

export type AliasWarning = MessageInitShape<typeof AliasWarningSchema>;

const MAX_WARNINGS = 20;

/**
 * Returns the services for which aliases just stored in a project or environment are part of a cycle that only
 * their nearer variables close; the newest 20. Takes one statement unless nearer aliases lead back to a written name.
 */
export async function aliasWarnings(db: Db, scope: Scope, written: string[]): Promise<AliasWarning[]> {
  if (scope.kind === "service" || written.length === 0) return [];
  const wide = chainOf(scope);
  const { names, scopeIds } = await sql.findCycleCandidates(db, scope.id, wide, written);
  if (scopeIds.length === 0) return [];
  const services = await listServicesIn(db, scopeIds);
  const scopes = [...new Set([...wide, ...services.flatMap(({ id, environmentId }) => [id, environmentId])])];
  const stored = await sql.listAliasTargets(db, scopes, names);
  const byScope = new Map(scopes.map((id) => [id, new Map<string, string | null>()]));
  for (const { scopeId, name, aliasTarget } of stored) byScope.get(scopeId)!.set(name, aliasTarget);
  const warnings: AliasWarning[] = [];
  for (const { id, name, environmentId } of services) {
    const chain = [...new Set([id, environmentId, ...wide.toReversed()])].map((one) => byScope.get(one)!);
    const nearest = (wanted: string) => chain.find((rows) => rows.has(wanted));
    const effective = written.filter((wanted) => nearest(wanted) === byScope.get(scope.id));
    const cycle = cycleThrough(new Set(effective), (wanted) => nearest(wanted)?.get(wanted));
    if (cycle) warnings.push({ reason: "alias_cycle", serviceId: id, name, environmentId, cycle });
    if (warnings.length === MAX_WARNINGS) break;
  }
  return warnings;
}
