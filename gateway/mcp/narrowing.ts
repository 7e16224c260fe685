import { parse } from "node:querystring";
import { type Problem, validationFailed } from "../http/problem.ts";
import { unknownField } from "../routing/json-shape.ts";

/** What the query of /mcp leaves of the tools (docs/mcp.md#narrowing). */
export type Narrowing = {
  /** Id or handle. */
  account?: string;
  /** Id or name. */
  project?: string;
  readOnly: boolean;
  tools?: Set<string>;
};

const MEMBERS = ["account", "project", "read_only", "tools"];

/** Returns what a query means; a 422 for one that means nothing. `names` are those of all tools. */
export function readNarrowing(query: string, names: string[]): Narrowing | Problem {
  const given = parse(query);
  const found = Object.entries(given).flatMap(([name, value]) => {
    if (!MEMBERS.includes(name)) return [unknownField(name, name, MEMBERS.values())];
    const wrong = typeof value === "string" ? wrongIn(name, value, names) : "may be given once";
    return wrong ? [{ path: name, reason: "invalid_choice", message: wrong }] : [];
  });
  if (found.length > 0) return validationFailed(found);
  const { account, project, read_only, tools } = given as Record<string, string | undefined>;
  return {
    ...(account && { account }),
    ...(project && { project }),
    readOnly: read_only !== undefined && read_only !== "false",
    ...(tools && { tools: new Set(tools.split(",")) }),
  };
}

function wrongIn(name: string, value: string, names: string[]): string | undefined {
  if (name === "read_only")
    return ["", "true", "false"].includes(value) ? undefined : "must be true or false";
  if (value === "" || value.length > 1_000) return "must not be empty, nor longer than 1000 characters";
  if (name !== "tools") return undefined;
  const unknown = value.split(",").find((each) => !names.includes(each));
  return unknown === undefined ? undefined : `must be names of tools, such as ${names.slice(0, 3).join(",")}`;
}
