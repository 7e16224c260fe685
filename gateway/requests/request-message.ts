import { isUtf8 } from "node:buffer";
import { parse as parseQuery } from "node:querystring";
import { type DescField, ScalarType } from "@bufbuild/protobuf";
import { findExcess, MAX_DEPTH } from "../../services/kit/rpc/json/json-bounds.ts";
import type { Detail } from "../../services/kit/rpc/refusals.ts";
import { MAX_FOUND } from "../../services/kit/rpc/violations.ts";
import { type Problem, problem, validationFailed } from "../http/problem.ts";
import { checkMembers, checkOf, isObject, unknownField } from "../routing/json-shape.ts";
import type { Route } from "../routing/routes.ts";

const WHOLE = /^-?\d{1,15}$/;

/**
 * Returns the JSON of an RPC's request message, made of path, query and body: 404, 400 or 422 for what is wrong with
 * them. The bytes of the body are checked and passed on unchanged, after the members of path and query.
 */
export function requestMessage(
  route: Route,
  params: Record<string, string>,
  query: string,
  body: Buffer | undefined,
): Buffer | string | Problem {
  let head = "";
  for (const { name, numeric } of route.pathMembers) {
    const value = params[name]!;
    if (value.includes("\0") || (numeric && !isInt32(value)))
      return problem(404, "not_found", `There is no such ${name}.`);
    head += `${head === "" ? "{" : ","}"${name}":${numeric ? Number(value) : JSON.stringify(value)}`;
  }
  if (query !== "") {
    const found: Detail[] = [];
    for (const [name, value] of Object.entries(readQuery(route, query, found)))
      head += `${head === "" ? "{" : ","}"${name}":${JSON.stringify(value)}`;
    if (found.length > 0) return validationFailed(found);
  }
  if (body === undefined || body.length === 0) return head === "" ? "{}" : `${head}}`;
  return spliced(route, head, body);
}

function spliced(route: Route, head: string, body: Buffer): Buffer | Problem {
  const excess = findExcess(route.rpc.input, body);
  if (excess?.kind === "many") return validationFailed([excess.detail]);
  if (excess?.kind === "deep")
    return problem(400, "malformed_request", `The body is nested more than ${MAX_DEPTH} levels deep.`);
  let value: unknown;
  try {
    if (excess || !isUtf8(body)) throw new SyntaxError("not UTF-8");
    value = JSON.parse(body.toString());
  } catch {
    return problem(400, "malformed_request", "The body is not valid JSON in UTF-8.");
  }
  const found: Detail[] = [];
  if (!isObject(value)) found.push({ path: "", reason: "invalid_type", message: "must be an object" });
  else checkMembers(route.bodyMembers, value, "", found);
  if (found.length > 0) return validationFailed(found);
  if (head === "") return body;
  const rest = body.subarray(body.indexOf("{") + 1);
  const comma = Object.keys(value as object).length > 0 ? "," : "";
  return Buffer.concat([Buffer.from(head + comma), rest]);
}

function readQuery(route: Route, query: string, found: Detail[]): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const [name, given] of Object.entries(parseQuery(query))) {
    if (found.length >= MAX_FOUND) break;
    const field = route.queryMembers.get(name);
    if (!field) {
      found.push(unknownField(name, name, route.queryMembers.keys()));
      continue;
    }
    const texts = Array.isArray(given) ? given : [given ?? ""];
    if (field.fieldKind !== "list" && texts.length > 1) {
      found.push({ path: name, reason: "invalid_type", message: "may be given once" });
      continue;
    }
    const values = texts.map((text) => fromText(field, text));
    members[name] = field.fieldKind === "list" ? values : values[0];
    checkOf(field)(members[name], name, found);
  }
  return members;
}

/** Converts a query text to a member's type; a text that does not fit stays text, which its check refuses. */
function fromText(field: DescField, text: string): unknown {
  if (field.scalar === ScalarType.BOOL && (text === "true" || text === "false")) return text === "true";
  if (field.scalar === ScalarType.INT32 && WHOLE.test(text)) return Number(text);
  if (field.scalar === ScalarType.DOUBLE && text !== "" && Number.isFinite(Number(text))) return Number(text);
  return text;
}

function isInt32(text: string): boolean {
  return WHOLE.test(text) && Math.abs(Number(text)) < 2 ** 31;
}
