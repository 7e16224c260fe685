import { type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { distance } from "fastest-levenshtein";
import { too_large } from "../../proto/gen/berth/options/v1/options_pb.ts";
import type { Detail } from "../../services/kit/rpc/refusals.ts";
import { MAX_FOUND } from "../../services/kit/rpc/violations.ts";
import { wrongTime } from "./timestamps.ts";

/** Checks one JSON value and adds what is wrong with it to `found`. Never quotes a value. */
export type Check = (value: unknown, path: string, found: Detail[]) => void;
export type Members = Map<string, Check>;

/** Longer than any member's name: a longer name is not compared with them. */
const MAX_NAME = 40;
const INT32 = 2 ** 31;

const wrong = (found: Detail[], path: string, message: string) =>
  void found.push({ path, reason: "invalid_type", message });

function simple(test: (value: unknown) => boolean, message: string): Check {
  return (value, path, found) => {
    if (!test(value)) wrong(found, path, message);
  };
}

const isString = simple((value) => typeof value === "string", "must be a string");
const isBoolean = simple((value) => typeof value === "boolean", "must be true or false");
const isNumber = simple((value) => typeof value === "number", "must be a number");
const isText64 = simple((value) => /^-?\d{1,20}$/.test(String(value)), "must be a whole number");
const isTime: Check = (value, path, found) => {
  const problem = wrongTime(typeof value === "string" ? value : "");
  if (problem) found.push({ path, ...problem });
};

const isInt32: Check = (value, path, found) => {
  if (!Number.isInteger(value)) wrong(found, path, "must be a whole number");
  else if ((value as number) < -INT32 || (value as number) >= INT32)
    found.push({ path, reason: "out_of_range", message: "is out of range" });
};

/** Returns `check` with a reason of its own for numbers too large for int32; JSON has no largest number. */
const notLarger = (check: Check, reason: string): Check => {
  return (value, path, found) => {
    if (typeof value === "number" && value >= INT32) found.push({ path, reason, message: "is too large" });
    else check(value, path, found);
  };
};

function scalar(type: ScalarType): Check {
  switch (type) {
    case ScalarType.BOOL:
      return isBoolean;
    case ScalarType.INT32:
    case ScalarType.UINT32:
    case ScalarType.SINT32:
      return isInt32;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return isNumber;
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return isString;
    default:
      return isText64;
  }
}

const cache = new Map<DescMessage, Members>();

/** Returns the checks of a message's members by JSON name; the proto name is not accepted. */
export function membersOf(desc: DescMessage): Members {
  const cached = cache.get(desc);
  if (cached) return cached;
  const members: Members = new Map();
  // Before its members are visited: a message may contain itself.
  cache.set(desc, members);
  for (const field of desc.fields) members.set(field.jsonName, checkOf(field));
  return members;
}

/** Returns the check of one member. `null` counts as not given, as in proto3 JSON. */
export function checkOf(field: DescField): Check {
  const one = single(field);
  if (field.fieldKind === "list")
    return (value, path, found) => {
      if (value === null) return;
      if (!Array.isArray(value)) return wrong(found, path, "must be a list");
      for (let i = 0; i < value.length && found.length < MAX_FOUND; i++)
        one(value[i], `${path}[${i}]`, found);
    };
  if (field.fieldKind === "map")
    return (value, path, found) => {
      if (value === null) return;
      if (!isObject(value)) return wrong(found, path, "must be an object");
      for (const [key, entry] of Object.entries(value)) {
        if (found.length >= MAX_FOUND) return;
        one(entry, `${path}[${key}]`, found);
      }
    };
  return (value, path, found) => {
    if (value !== null) one(value, path, found);
  };
}

function single(field: DescField): Check {
  if (field.message) {
    const desc = field.message;
    if (desc.typeName === "google.protobuf.Timestamp") return isTime;
    if (desc.typeName.startsWith("google.protobuf.")) return () => {};
    return (value, path, found) => {
      if (!isObject(value)) wrong(found, path, "must be an object");
      else checkMembers(membersOf(desc), value, path, found);
    };
  }
  if (field.enum) return isString;
  const check = scalar(field.scalar as ScalarType);
  const tooLarge = getOption(field, too_large);
  return tooLarge === "" ? check : notLarger(check, tooLarge);
}

/** Checks an object against the members that it may have; stops at 20 mistakes. */
export function checkMembers(members: Members, value: object, path: string, found: Detail[]): void {
  for (const [key, entry] of Object.entries(value)) {
    if (found.length >= MAX_FOUND) return;
    const at = path === "" ? key : `${path}.${key}`;
    const check = members.get(key);
    if (check) check(entry, at, found);
    else found.push(unknownField(at, key, members.keys()));
  }
}

/** Paths in refusals are cut to this length: their names are the caller's. */
const MAX_PATH = 200;

/** Returns the refusal of an unknown member: it lists the known ones and names the one that was probably meant. */
export function unknownField(path: string, name: string, members: Iterable<string>): Detail {
  const all = [...members];
  const near = nearest(name, all);
  const meant = near === undefined ? "" : `; did you mean ${near}?`;
  const there = all.length === 0 ? "There are none." : `There are: ${all.join(", ")}.`;
  const message = `is not known here${meant || "."} ${there}`;
  return { path: path.slice(0, MAX_PATH), reason: "unknown_field", message };
}

function nearest(name: string, members: string[]): string | undefined {
  if (members.length === 0 || name.length > MAX_NAME) return undefined;
  const plain = (text: string) => text.replaceAll(/[_-]/g, "").toLowerCase();
  const near = members.toSorted(
    (a, b) => distance(plain(name), plain(a)) - distance(plain(name), plain(b)),
  )[0]!;
  return distance(plain(name), plain(near)) <= Math.max(1, near.length / 3) ? near : undefined;
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
