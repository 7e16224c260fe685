import { rulesOf } from "../../../../services/kit/rpc/interceptor.ts";
import type { Route } from "../../../routing/routes.ts";
import { inputReasons } from "./input-reasons.ts";

/** A documented refusal; `reasons` are the values that its details[].reason may have. */
export type Refusal = { status: number; code: string; reasons: string[] };

/** Returns the refusals of a route: those of its rules, and those that follow from its kind. */
export function refusalsOf(route: Route): Refusal[] {
  const rules = rulesOf(route.rpc);
  const hasBody = route.method !== "GET";
  const takesKey = route.method === "POST" && !route.isPublic;
  const namesMoreThanAccount = route.pathMembers.some(({ name }) => name !== "accountId");
  const all: Refusal[] = [];
  const add = (applies: boolean, status: number, code: string, reasons: string[] = []) => {
    const known = all.some((refusal) => refusal.status === status && refusal.code === code);
    if (applies && !known) all.push({ status, code, reasons });
  };
  add(route.bodyMembers.has("confirmImpact"), 409, "impact_confirmation_required");
  for (const { status, code } of rules.refusals) add(true, status, code);
  add(true, 400, "malformed_request");
  add(!route.isPublic, 401, "unauthenticated");
  add(route.needs !== undefined, 403, "forbidden");
  add(route.usersOnly, 403, "machine_actor_forbidden");
  add(namesMoreThanAccount, 404, "not_found");
  add(true, 408, "request_timeout");
  add(takesKey, 409, "idempotency_key_reused");
  add(takesKey, 409, "conflict");
  add(hasBody, 413, "payload_too_large");
  add(hasBody, 415, "unsupported_media_type");
  add(true, 417, "malformed_request");
  const own = rules.reasons.split(",").filter(Boolean);
  const ofKey = takesKey ? ["invalid_key"] : [];
  add(true, 422, "validation_failed", [...new Set([...own, ...inputReasons(route), ...ofKey])]);
  add(true, 429, "rate_limited");
  add(true, 431, "malformed_request");
  add(true, 500, "internal");
  add(rules.provider !== "", 502, `${rules.provider}_unavailable`);
  add(true, 503, "unavailable");
  return all;
}
