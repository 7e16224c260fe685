import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv, type ErrorObject } from "ajv";
import type { Form } from "../../../../deploy/stripe-simulator/http/form.ts";
import type { Check } from "../../../../deploy/stripe-simulator/server/server.ts";

/** JSON Schemas of requests' parameters. `requests` has the name of a definition by method and path. */
export type RequestSchemas = {
  /** The version of the package `stripe` whose types these are. */
  stripe: string;
  requests: Record<string, string>;
  definitions: Record<string, object | boolean>;
};

export const schemasFile = join(import.meta.dirname, "schemas.json");

/** Returns the schemas that are committed. */
export const readSchemas = (): RequestSchemas => JSON.parse(readFileSync(schemasFile, "utf8"));

/**
 * Returns a function that lists what Stripe would object to in a request: a route that is not in `request-types.ts`, a
 * parameter that its API does not have, one that is missing, a value of another type. `params` is the decoded form of
 * body or query: an array has its indexes for names.
 */
export function requestChecker(): Check {
  const { requests, definitions } = readSchemas();
  const ajv = new Ajv({ coerceTypes: true, allErrors: true, allowUnionTypes: true, strictRequired: false });
  ajv.addSchema({ $id: "stripe", definitions });
  return (method, path, params) => {
    const request = findRequest(Object.keys(requests), method, path);
    if (request === undefined) return [`${method} ${path} is no request of request-types.ts`];
    const validate = ajv.getSchema(`stripe#/definitions/${requests[request]}`)!;
    if (validate(toValue(params))) return [];
    return [...new Set(validate.errors!.filter(isPrecise).map(toComplaint))];
  };
}

/** Returns a copy with arrays. The values that it finds become what they were read as: numbers, booleans. */
function toValue(form: string | Form): unknown {
  if (typeof form === "string") return form;
  const entries = Object.entries(form).map(([name, value]) => [name, toValue(value)] as const);
  const isArray = entries.length > 0 && entries.every(([name], index) => name === String(index));
  return isArray ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

/** Returns the request whose path this is, one without an id before one with it. */
function findRequest(requests: string[], method: string, path: string): string | undefined {
  const exact = `${method} ${path}`;
  if (requests.includes(exact)) return exact;
  return requests.find((one) => {
    const [all, parts] = [one.split("/"), exact.split("/")];
    return all.length === parts.length && all.every((part, i) => part === "{id}" || part === parts[i]);
  });
}

/** Returns whether an error says more than that a value is none of several things, where another says of which it is. */
function isPrecise(
  { keyword, schemaPath, instancePath }: ErrorObject,
  _: number,
  all: ErrorObject[],
): boolean {
  if (keyword === "anyOf") return false;
  if (!schemaPath.includes("/anyOf/")) return true;
  return !all.some((other) => other.instancePath.startsWith(`${instancePath}/`));
}

function toComplaint({ instancePath, keyword, params, message }: ErrorObject): string {
  const [first, ...rest] = instancePath.split("/").slice(1);
  const inside = first === undefined ? "" : first + rest.map((part) => `[${part}]`).join("");
  if (keyword === "additionalProperties")
    return `${name(inside, params.additionalProperty)}: Stripe has no such parameter`;
  if (keyword === "required") return `${name(inside, params.missingProperty)}: is required`;
  if (keyword === "enum") return `${inside}: must be one of ${JSON.stringify(params.allowedValues)}`;
  return `${inside || "parameters"}: ${message}`;
}

const name = (inside: string, member: string) => (inside === "" ? member : `${inside}[${member}]`);
