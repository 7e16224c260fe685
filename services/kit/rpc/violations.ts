import { type DescField, type DescMethod, getOption, type Message } from "@bufbuild/protobuf";
import { createValidator, type Violation } from "@bufbuild/protovalidate";
import type { ConnectError } from "@connectrpc/connect";
import { shown, too_long } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { type FieldRules, field as fieldRules } from "../../../proto/gen/buf/validate/validate_pb.ts";
import { findTooMany } from "./json/json-bounds.ts";
import { type Detail, invalid, refuse, sentence } from "./refusals.ts";

const validator = createValidator();

/** Bounds paths, which may contain the key of a map, chosen by the caller. */
const MAX_PATH = 200;

const kept = new WeakMap<Message, "unchecked" | "valid">();

/** How many mistakes of one request are listed. */
export const MAX_FOUND = 20;

/** Says that a message will be received again and is never changed: its rules are checked once. */
export function keepChecked<M extends Message>(message: M): M {
  kept.set(message, "unchecked");
  return Object.freeze(message);
}

/** Returns a 422 with a sentence for each member that violates the rules of the proto; undefined when none does. */
export function findViolations(method: DescMethod, message: Message): ConnectError | undefined {
  const known = kept.get(message);
  if (known === "valid") return undefined;
  // First, as every entry is checked, whatever was found before.
  const tooMany = findTooMany(method.input, message);
  if (tooMany) return invalid(tooMany.path, tooMany.reason, sentence(tooMany.path, tooMany.message));
  const result = validator.validate(method.input, message);
  if (result.kind === "error") throw result.error;
  const broken = result.kind === "valid" ? [] : result.violations.slice(0, MAX_FOUND).map(detailOf);
  const details = [...broken, ...findHidden(method, message)].slice(0, MAX_FOUND);
  if (details.length === 0) {
    if (known) kept.set(message, "valid");
    return undefined;
  }
  return refuse(422, "validation_failed", details[0]!.message, { details });
}

/**
 * Control, private and surrogate characters, line ends, what turns text around or takes no space, and blanks that are not
 * spaces. The two joiners stay: some scripts, and emoji, need them.
 */
const HIDDEN = /[\p{Cc}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|(?![\u200c\u200d])\p{Cf}/u;
const VISIBLE = /[^\s\p{Cf}]/u;

/** Returns what is wrong with the members that others see (berth.options.v1.shown). */
function findHidden({ input }: DescMethod, message: Message): Detail[] {
  return input.fields.flatMap((field) => {
    const text = getOption(field, shown) && (message as unknown as Record<string, unknown>)[field.localName];
    if (typeof text !== "string" || text === "" || (VISIBLE.test(text) && !HIDDEN.test(text))) return [];
    const said = "must be visible text on one line, without characters that control how it is shown";
    return [{ path: field.jsonName, reason: "invalid_text", message: sentence(field.jsonName, said) }];
  });
}

/** Returns the reason of a violated rule: `too_long` for `string.max_len`, the id for a `cel` rule. */
export function reasonOf(ruleId: string): string {
  return TABLE.find(([rule]) => rule.test(ruleId))?.[1] ?? ruleId.replaceAll(".", "_");
}

function detailOf(violation: Violation): Detail {
  const path = pathOf(violation).slice(0, MAX_PATH);
  const field = violation.field.findLast((part): part is DescField => part.kind === "field");
  const words = TABLE.find(([rule]) => rule.test(violation.ruleId))?.[2];
  const said = words ? words(limitsOf(violation, field), field) : violation.message;
  const reason = reasonOf(violation.ruleId);
  const ofWhole = violation.field.at(-1) === field;
  const own = reason === "too_long" && field && ofWhole && getOption(field, too_long);
  return { path, reason: own || reason, message: sentence(path, said) };
}

function pathOf({ field }: Violation): string {
  const parts = field.map((part) => {
    if ("jsonName" in part) return `.${part.jsonName}`;
    if (part.kind === "list_sub") return `[${part.index}]`;
    return part.kind === "map_sub" ? `[${part.key}]` : "";
  });
  return parts.join("").slice(1);
}

type Limits = {
  minLen?: bigint;
  maxLen?: bigint;
  maxBytes?: bigint;
  in?: string[];
  gte?: number;
  lte?: number;
  minItems?: bigint;
  maxItems?: bigint;
  maxPairs?: bigint;
};

/** Returns the limits of the violated rule: those of the member, or of its items, keys or values. */
function limitsOf({ rule }: Violation, field: DescField | undefined): Limits {
  let at: FieldRules | undefined = field && getOption(field, fieldRules);
  let limits: Limits = {};
  for (const part of rule) {
    if (part.kind !== "field" || !at) break;
    if (at.type.case === part.localName) limits = at.type.value as Limits;
    const inner = (limits as Record<string, unknown>)[part.localName] as FieldRules | undefined;
    if (["items", "keys", "values"].includes(part.localName)) at = inner;
  }
  return limits;
}

const many = (count: bigint | undefined, one: string) => `${count} ${one}${count === 1n ? "" : "s"}`;
const entries = (count: bigint | undefined) => `${count} ${count === 1n ? "entry" : "entries"}`;
const choice = new Intl.ListFormat("en", { type: "disjunction" });
/** Whether an empty text may mean that the member is absent: without `optional` the two are the same. */
const mayBeAbsent = (field: DescField | undefined) =>
  field?.fieldKind === "scalar" && !field.proto.proto3Optional;

/** Rule, reason (docs/conventions.md#validation-reasons), and what the member must be. A `cel` rule has both itself. */
const TABLE: [rule: RegExp, reason: string, words: (limits: Limits, field?: DescField) => string][] = [
  [/^required$/, "required", () => "is required"],
  [
    /^string\.min_len$/,
    "required",
    ({ minLen }, field) => {
      if (minLen !== 1n) return `must have at least ${many(minLen, "character")}`;
      return mayBeAbsent(field) ? "is required" : "must not be empty";
    },
  ],
  [/^repeated\.min_items$/, "required", ({ minItems }) => `must have at least ${entries(minItems)}`],
  [/^string\.max_len$/, "too_long", ({ maxLen }) => `may have at most ${many(maxLen, "character")}`],
  [
    /^string\.max_bytes$/,
    "too_long",
    ({ maxBytes }) => `may have at most ${many(maxBytes, "byte")} of UTF-8`,
  ],
  [/^repeated\.max_items$/, "too_long", ({ maxItems }) => `may have at most ${entries(maxItems)}`],
  [/^map\.max_pairs$/, "too_long", ({ maxPairs }) => `may have at most ${entries(maxPairs)}`],
  [/^string\.in$/, "invalid_choice", (limits) => `must be ${choice.format(limits.in ?? [])}`],
  [
    /^int32\./,
    "out_of_range",
    (limits) => {
      // A limit that is not set reads as 0, but is not an own property.
      const [low, high] = [Object.hasOwn(limits, "gte"), Object.hasOwn(limits, "lte")];
      if (low && high) return `must be from ${limits.gte} to ${limits.lte}`;
      return low ? `must be ${limits.gte} or more` : `must be ${limits.lte} or less`;
    },
  ],
  [/^string\.email/, "invalid_email", () => "must be an e-mail address, such as ada@example.com"],
  [/^string\.uri/, "invalid_url", () => "must be a URL"],
];
