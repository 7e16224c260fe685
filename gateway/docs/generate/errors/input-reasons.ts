import { type DescField, type DescMessage, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { type FieldRules, field as fieldRules } from "../../../../proto/gen/buf/validate/validate_pb.ts";
import { reasonOf } from "../../../../services/kit/rpc/violations.ts";
import type { Route } from "../../../routing/routes.ts";

/** Returns the reasons for which types and rules can refuse the query or the body of a route. */
export function inputReasons(route: Route): string[] {
  // Any request may have a query with an unknown member.
  const reasons = new Set(["unknown_field"]);
  // And any body may hold more than there is a place for, or a number without end.
  if (route.method !== "GET") for (const reason of ["too_long", "out_of_range"]) reasons.add(reason);
  const seen = new Set<DescMessage>();
  const visit = (field: DescField) => {
    reasons.add("invalid_type");
    if (field.scalar === ScalarType.INT32 || field.message?.typeName === "google.protobuf.Timestamp")
      reasons.add("out_of_range");
    if (field.scalar === ScalarType.STRING) reasons.add("invalid_text");
    if (hasOption(field, fieldRules))
      for (const id of rulesIn(getOption(field, fieldRules))) reasons.add(reasonOf(id));
    if (!field.message || seen.has(field.message)) return;
    seen.add(field.message);
    if (!field.message.typeName.startsWith("google.protobuf.")) field.message.fields.forEach(visit);
  };
  const inBody = route.rpc.input.fields.filter(({ jsonName }) => route.bodyMembers.has(jsonName));
  for (const field of route.method === "GET" ? route.queryMembers.values() : inBody) visit(field);
  return [...reasons];
}

/** Returns the ids of the rules that are set. */
function rulesIn(rules: FieldRules): string[] {
  const ids = rules.cel.map(({ id }) => id);
  if (rules.required) ids.push("required");
  const { case: type, value } = rules.type;
  for (const [name, rule] of Object.entries(value ?? {})) {
    if (["items", "keys", "values"].includes(name)) ids.push(...rulesIn(rule as FieldRules));
    else if (!name.startsWith("$") && !(Array.isArray(rule) && rule.length === 0))
      ids.push(`${type}.${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`);
  }
  return ids;
}
