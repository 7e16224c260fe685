import { type Detail, invalid, refuse } from "../../kit/rpc/refusals.ts";
import { MAX_FOUND } from "../../kit/rpc/violations.ts";
import type { Source } from "../writes/variable-row.ts";

// Rules of request bodies that the proto cannot express (docs/variables.md#kinds). It checks names.

const MAX_VALUE_BYTES = 64 * 1024;
const MAX_BATCH_NAMES = 500;

type Given = {
  value?: string | undefined;
  connection?: { service: string; key: string } | undefined;
  aliasTarget?: string | undefined;
  sensitive?: boolean | undefined;
};

/** Returns the one source of a new variable. Throws 422. */
export function parseSource(name: string, given: Given): Source {
  const { source, problem } = checkSource(name, given, "");
  if (problem) throw invalid(problem.path, problem.reason, problem.message);
  return source!;
}

/** Returns what a PATCH changes: a source, `sensitive`, or both. Throws 422. */
export function parsePatch(name: string, given: Given): { source?: Source; sensitive?: boolean | undefined } {
  const { value, connection, aliasTarget, sensitive } = given;
  if (value === undefined && connection === undefined && aliasTarget === undefined) {
    if (sensitive !== undefined) return { sensitive };
    throw invalid("", "empty_patch", "Give a value, a connection, an aliasTarget or sensitive.");
  }
  return { source: parseSource(name, given), sensitive };
}

/** Returns the sources of a batch, in its order. Throws 422 with the entries that are wrong, 20 at most. */
export function parseBatch(set: (Given & { name: string })[], unset: string[]): Source[] {
  if (set.length + unset.length > MAX_BATCH_NAMES)
    throw invalid("set", "batch_too_large", `A batch may name at most ${MAX_BATCH_NAMES} variables.`);
  const problems: Detail[] = [];
  const seen = new Set<string>();
  const refuseRepeated = (name: string, path: string) => {
    if (seen.has(name))
      problems.push({ path, reason: "duplicate_name", message: `${name} is named more than once.` });
  };
  const sources = set.map((entry, index) => {
    refuseRepeated(entry.name, `set[${index}].name`);
    seen.add(entry.name);
    const { source, problem } = checkSource(entry.name, entry, `set[${index}].`);
    if (problem) problems.push(problem);
    return source;
  });
  for (const [index, name] of unset.entries()) refuseRepeated(name, `unset[${index}]`);
  if (problems.length > 0)
    throw refuse(422, "validation_failed", problems[0]!.message, { details: problems.slice(0, MAX_FOUND) });
  return sources as Source[];
}

function checkSource(name: string, given: Given, prefix: string): { source?: Source; problem?: Detail } {
  const { value, connection, aliasTarget, sensitive } = given;
  const wrong = (path: string, reason: string, message: string) => ({
    problem: { path: `${prefix}${path}`, reason, message },
  });
  const sources = [value, connection, aliasTarget].filter((source) => source !== undefined);
  if (sources.length !== 1)
    return wrong("value", "exactly_one_source", "Give exactly one of value, connection and aliasTarget.");
  if (sensitive !== undefined && value === undefined)
    return wrong("sensitive", "sensitive_requires_literal", "Only a variable with a value can be sensitive.");
  if (aliasTarget === name)
    return wrong("aliasTarget", "alias_self_reference", "An alias cannot point to itself.");
  if (aliasTarget !== undefined) return { source: { kind: "alias", target: aliasTarget } };
  if (connection !== undefined)
    return { source: { kind: "connection", service: connection.service, key: connection.key } };
  if (value!.includes("\0") || !value!.isWellFormed())
    return wrong("value", "value_invalid", "A value is Unicode text without the character U+0000.");
  if (Buffer.byteLength(value!) > MAX_VALUE_BYTES)
    return wrong("value", "value_too_large", `A value may have at most ${MAX_VALUE_BYTES} bytes of UTF-8.`);
  return { source: { kind: "literal", value: value! } };
}
