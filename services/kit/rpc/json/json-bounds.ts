import { type DescField, type DescMessage, getOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { too_long } from "../../../../proto/gen/berth/options/v1/options_pb.ts";
import { type FieldRules, field as fieldRules } from "../../../../proto/gen/buf/validate/validate_pb.ts";
import type { Detail } from "../refusals.ts";

/** How many levels of objects and lists a body may have. */
export const MAX_DEPTH = 32;
/** How many values a body may hold that its message has no place for: enough for all mistakes that are told. */
const SPARE = 1_000;
/** The entries of a list or map without a rule: those of a Struct, and of messages between Berth's own services. */
const MAX_ENTRIES = 10_000;
/** JSON has no longest number; a double is exact with 17 digits. */
const MAX_NUMBER = 1_000;
/** In bytes, of a text without a rule of its own: as long as a query can make one, with each character escaped. */
const MAX_TEXT = 32 * 1024;
/** In bytes: longer than any member's name, however it is escaped. */
const MAX_NAME = 240;

/** What is too much in a body, or that it is no JSON. */
export type Excess = { kind: "malformed" | "deep" } | { kind: "many"; detail: Detail };

type Bound = { max: number; reason: string };
/** What a value may hold; undefined for a number, a boolean, and free JSON. */
type Shape =
  | { kind: "text"; bytes: number; reason: string; message: string }
  | { kind: "message"; members: Map<string, Shape> }
  | { kind: "list" | "map"; bound: Bound; one: Shape }
  | undefined;

const shapes = new Map<DescMessage, Shape>();

function shapeOf(desc: DescMessage): Shape {
  const found = shapes.get(desc);
  if (found) return found;
  const members = new Map<string, Shape>();
  const shape: Shape = { kind: "message", members };
  // Before its members are visited: a message may contain itself.
  shapes.set(desc, shape);
  for (const field of desc.fields)
    for (const name of [field.jsonName, field.name]) members.set(name, ofField(field));
  return shape;
}

function ofField(field: DescField): Shape {
  const rules = getOption(field, fieldRules);
  const bound = boundOf(field);
  if (!bound) return ofOne(field, rules, getOption(field, too_long) || "too_long");
  return {
    kind: field.fieldKind as "list" | "map",
    bound,
    one: ofOne(field, rulesOfEntries(rules), "too_long"),
  };
}

function ofOne(field: DescField, rules: FieldRules | undefined, reason: string): Shape {
  if (isFree(field)) return undefined;
  if (field.message) return shapeOf(field.message);
  return field.scalar === ScalarType.STRING ? ofText(rules, reason) : undefined;
}

function rulesOfEntries({ type }: FieldRules): FieldRules | undefined {
  if (type.case === "repeated") return type.value.items;
  return type.case === "map" ? type.value.values : undefined;
}

/** Returns the most bytes that a text may have in JSON, where each character may be written as an escape. */
function ofText(rules: FieldRules | undefined, reason: string): Shape {
  const { maxLen = 0n, maxBytes = 0n } = rules?.type.case === "string" ? rules.type.value : {};
  const text = (bytes: number, message: string): Shape => ({ kind: "text", bytes, reason, message });
  if (maxLen > 0n) return text(12 * Number(maxLen), `may have at most ${maxLen} characters`);
  if (maxBytes > 0n) return text(6 * Number(maxBytes), `may have at most ${maxBytes} bytes of UTF-8`);
  return text(MAX_TEXT, "is too long");
}

/** Whether a member is a text in JSON, or free JSON: all in that is spare. */
const isFree = ({ message }: DescField) => message?.typeName.startsWith("google.protobuf.") === true;

/** Returns how many entries a list or map may have, and the reason to refuse more; undefined for other members. */
function boundOf(field: DescField): Bound | undefined {
  if (field.fieldKind !== "list" && field.fieldKind !== "map") return undefined;
  return { max: ruledBoundOf(field) ?? MAX_ENTRIES, reason: getOption(field, too_long) || "too_long" };
}

/** Returns the `max_items` or `max_pairs` of a list or map. */
function ruledBoundOf(field: DescField): number | undefined {
  const { type } = getOption(field, fieldRules);
  const max = type.case === "repeated" ? type.value.maxItems : type.case === "map" ? type.value.maxPairs : 0n;
  return max > 0n ? Number(max) : undefined;
}

/** Returns the lists and maps in a message that have no rule for how many entries they may have. */
export function unboundedIn(desc: DescMessage, seen = new Set<DescMessage>()): DescField[] {
  if (seen.has(desc)) return [];
  seen.add(desc);
  return desc.fields.flatMap((field) => [
    ...(boundOf(field) && !ruledBoundOf(field) ? [field] : []),
    ...(field.message ? unboundedIn(field.message, seen) : []),
  ]);
}

const tooMany = (path: string, { max, reason }: Bound): Detail => ({
  path,
  reason,
  message: `may have at most ${max} ${max === 1 ? "entry" : "entries"}`,
});

/**
 * Returns what is too much in the JSON of a request message, or undefined. Reads the bytes once, before anything is made
 * of them, and stops at the first excess. Not all that it lets pass is JSON: it only keeps what parses it from harm.
 */
export function findExcess(desc: DescMessage, body: Uint8Array): Excess | undefined {
  return scan(shapeOf(desc), body, SPARE);
}

/** As `findExcess`, of JSON that is no message of ours, and may hold so many values. */
export function findExcessInFree(body: Uint8Array, values: number): Excess | undefined {
  return scan(undefined, body, values);
}

function scan(shape: Shape, body: Uint8Array, spare: number): Excess | undefined {
  try {
    new Scan(body, spare).whole(shape);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof Stop) return thrown.excess;
    throw thrown;
  }
}

type Holder = { field: DescField; bound: Bound | undefined; inner: DescMessage | undefined };
const holders = new Map<DescMessage, Holder[]>();

/** Returns the members of a message that may hold many entries, or messages that may. */
function holdersIn(desc: DescMessage): Holder[] {
  let found = holders.get(desc);
  if (found) return found;
  found = desc.fields.flatMap((field) => {
    const bound = boundOf(field);
    const inner = isFree(field) ? undefined : field.message;
    return bound || inner ? [{ field, bound, inner }] : [];
  });
  holders.set(desc, found);
  return found;
}

/** Returns the first list or map in a message that has too many entries. */
export function findTooMany(desc: DescMessage, message: Message, path = ""): Detail | undefined {
  for (const { field, bound, inner } of holdersIn(desc)) {
    const value = (message as unknown as Record<string, object | undefined>)[field.localName];
    if (!value) continue;
    const at = path + field.jsonName;
    const entries = bound ? Object.values(value) : [value];
    if (bound && entries.length > bound.max) return tooMany(at, bound);
    for (let index = 0; inner && index < entries.length; index++) {
      const found = findTooMany(inner, entries[index] as Message, `${at}${bound ? `[${index}]` : ""}.`);
      if (found) return found;
    }
  }
  return undefined;
}

class Stop {
  readonly excess: Excess;
  constructor(excess: Excess) {
    this.excess = excess;
  }
}

const MALFORMED = new Stop({ kind: "malformed" });
const DEEP = new Stop({ kind: "deep" });

const [QUOTE, BACKSLASH, COMMA, COLON, MINUS] = [0x22, 0x5c, 0x2c, 0x3a, 0x2d];
const [OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [0x5b, 0x5d, 0x7b, 0x7d];

const isSpace = (byte: number | undefined) =>
  byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

class Scan {
  readonly #body: Buffer;
  #at = 0;
  #spare: number;
  /** Where the scan is, in members and entries that the message has a place for. */
  readonly #path: (string | number)[] = [];

  constructor(body: Uint8Array, spare: number) {
    this.#spare = spare;
    this.#body = Buffer.from(body.buffer, body.byteOffset, body.length);
  }

  whole(shape: Shape): void {
    this.#value(shape, true, 0);
    if (this.#next() !== undefined) throw MALFORMED;
  }

  /** Reads one value. `known` says that the message has a place for it. */
  #value(shape: Shape, known: boolean, depth: number): void {
    if (!known && --this.#spare < 0) throw this.#many("too_long", "holds more than there is a place for");
    const first = this.#next();
    if ((first === OPEN || first === OPEN_LIST) && depth >= MAX_DEPTH) throw DEEP;
    if (first === QUOTE) this.#text(shape);
    else if (first === OPEN) this.#object(shape, depth + 1);
    else if (first === OPEN_LIST) this.#list(shape, depth + 1);
    else this.#word(first);
  }

  #object(shape: Shape, depth: number): void {
    const members = shape?.kind === "message" ? shape.members : undefined;
    const entries = shape?.kind === "map" ? shape : undefined;
    // The last of several members of one name counts, so that only the first is free.
    const given = members && new Set<string>();
    let count = 0;
    this.#at++;
    if (this.#next() === CLOSE) return void this.#at++;
    for (;;) {
      if (this.#next() !== QUOTE) throw MALFORMED;
      const start = this.#at;
      this.#string();
      if (entries && ++count > entries.bound.max) throw this.#tooMany(entries.bound);
      const name = members && this.#name(start);
      const known = entries !== undefined || (name !== undefined && members!.has(name) && !given!.has(name));
      if (this.#next() !== COLON) throw MALFORMED;
      this.#at++;
      if (!known) this.#value(undefined, false, depth);
      else {
        given?.add(name!);
        this.#path.push(name ?? count - 1);
        this.#value(entries ? entries.one : members!.get(name!), true, depth);
        this.#path.pop();
      }
      if (!this.#goesOn(CLOSE)) return;
    }
  }

  #list(shape: Shape, depth: number): void {
    const list = shape?.kind === "list" ? shape : undefined;
    this.#at++;
    if (this.#next() === CLOSE_LIST) return void this.#at++;
    for (let count = 1; ; count++) {
      if (list && count > list.bound.max) throw this.#tooMany(list.bound);
      if (list) this.#path.push(count - 1);
      this.#value(list?.one, list !== undefined, depth);
      if (list) this.#path.pop();
      if (!this.#goesOn(CLOSE_LIST)) return;
    }
  }

  /** Reads what follows a member or entry: a comma, or the end. */
  #goesOn(end: number): boolean {
    const byte = this.#next();
    if (byte !== COMMA && byte !== end) throw MALFORMED;
    this.#at++;
    return byte === COMMA;
  }

  #text(shape: Shape): void {
    const start = this.#at;
    this.#string();
    if (shape?.kind === "text" && this.#at - start - 2 > shape.bytes)
      throw this.#many(shape.reason, shape.message);
  }

  /** Reads a string, from its first quote to the byte after its last. */
  #string(): void {
    const body = this.#body;
    const end = body.indexOf(QUOTE, this.#at + 1);
    if (end < 0) throw MALFORMED;
    this.#at = body[end - 1] === BACKSLASH ? this.#escapedEnd() : end + 1;
  }

  #escapedEnd(): number {
    const body = this.#body;
    for (let at = this.#at + 1; at < body.length; at++) {
      if (body[at] === BACKSLASH) at++;
      else if (body[at] === QUOTE) return at + 1;
    }
    throw MALFORMED;
  }

  /** Returns the name of a member whose string has been read; undefined for one that no member can have. */
  #name(start: number): string | undefined {
    if (this.#at - start > MAX_NAME) return undefined;
    const text = this.#body.toString("utf8", start, this.#at);
    if (!text.includes("\\")) return text.slice(1, -1);
    try {
      return JSON.parse(text) as string;
    } catch {
      throw MALFORMED;
    }
  }

  /** Reads a number, true, false or null. */
  #word(first: number | undefined): void {
    const body = this.#body;
    const start = this.#at;
    while (this.#at < body.length && !isWordEnd(body[this.#at]!)) this.#at++;
    const length = this.#at - start;
    if (length === 0) throw MALFORMED;
    if (length <= MAX_NUMBER) return;
    const isNumber = first === MINUS || (first! >= 0x30 && first! <= 0x39);
    throw isNumber ? this.#many("out_of_range", `may have at most ${MAX_NUMBER} digits`) : MALFORMED;
  }

  /** Skips white space and returns the byte there; undefined at the end. */
  #next(): number | undefined {
    const body = this.#body;
    while (isSpace(body[this.#at])) this.#at++;
    return body[this.#at];
  }

  #tooMany(bound: Bound): Stop {
    return new Stop({ kind: "many", detail: tooMany(this.#where(), bound) });
  }

  #many(reason: string, message: string): Stop {
    return new Stop({ kind: "many", detail: { path: this.#where(), reason, message } });
  }

  #where(): string {
    const path = this.#path.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("");
    return path.startsWith(".") ? path.slice(1) : path;
  }
}

function isWordEnd(byte: number): boolean {
  return (
    byte === COMMA ||
    byte === CLOSE ||
    byte === CLOSE_LIST ||
    isSpace(byte) ||
    byte === COLON ||
    byte === QUOTE
  );
}
