import Stripe from "stripe";
import { invalid, StripeError } from "./errors.ts";

/** Parses a form value into a parameter's value. Throws Stripe's error for one that Stripe would refuse. */
export type Field<T> = (value: unknown, path: string) => T;

type Members<T> = { [Name in keyof T]?: Field<unknown> };

const shown = (value: unknown) => (typeof value === "string" ? value : "not a single value");

export const text: Field<string> = (value, path) => {
  if (typeof value !== "string") throw invalid("Invalid string", path);
  return value;
};

export const integer: Field<number> = (value, path) => {
  if (typeof value !== "string" || !/^-?\d{1,15}$/.test(value))
    throw invalid(`Invalid integer: ${shown(value)}`, path, "parameter_invalid_integer");
  return Number(value);
};

export const natural: Field<number> = (value, path) => {
  const number = integer(value, path);
  if (number < 0)
    throw invalid("This value must be greater than or equal to 0.", path, "parameter_invalid_integer");
  return number;
};

export const float: Field<number> = (value, path) => {
  const number = typeof value === "string" && value !== "" ? Number(value) : Number.NaN;
  if (!Number.isFinite(number)) throw invalid(`Invalid decimal: ${shown(value)}`, path);
  return number;
};

export const decimal: Field<Stripe.Decimal> = (value, path) => {
  if (typeof value !== "string" || !/^-?\d+(\.\d{1,12})?$/.test(value))
    throw invalid(`Invalid decimal: ${shown(value)}; at most 12 decimal places`, path);
  return Stripe.Decimal.from(value);
};

export const flag: Field<boolean> = (value, path) => {
  if (value !== "true" && value !== "false") throw invalid(`Invalid boolean: ${shown(value)}`, path);
  return value === "true";
};

/** Returns a field of one of some words. */
export function oneOf<const W extends string>(...words: W[]): Field<W> {
  return (value, path) => {
    const found = words.find((word) => word === value);
    if (found === undefined)
      throw invalid(`Invalid ${path}: must be one of ${words.join(", or ")}`, path, "parameter_invalid_enum");
    return found;
  };
}

/** Returns a field that the empty string clears. */
export function clearable<T>(field: Field<T>): Field<T | ""> {
  return (value, path) => (value === "" ? "" : field(value, path));
}

/** Returns a field that accepts what either field accepts. */
export function either<A, B>(first: Field<A>, second: Field<B>): Field<A | B> {
  return (value, path) => {
    try {
      return first(value, path);
    } catch (error) {
      if (!(error instanceof StripeError)) throw error;
      return second(value, path);
    }
  };
}

/** Returns a field of a list, written as `name[0]`, `name[1]` and so on. */
export function list<T>(field: Field<T>, most = Number.POSITIVE_INFINITY): Field<T[]> {
  return (value, path) => {
    if (typeof value !== "object" || value === null || Object.keys(value).some((key) => !/^\d+$/.test(key)))
      throw invalid("Invalid array", path);
    const items = Object.values(value);
    if (items.length > most)
      throw invalid(`You may only specify ${most === 1 ? "one" : most} of these: ${path}`, path);
    return items.map((item, index) => field(item, `${path}[${index}]`));
  };
}

/** Metadata and other maps of texts. */
export const map: Field<Record<string, string>> = (value, path) => {
  if (typeof value !== "object" || value === null) throw invalid("Invalid object", path);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, text(item, `${path}[${key}]`)]));
};

/**
 * Returns a field of an object with these members and no others. The names are checked against Stripe's own type of
 * the parameters; `required` are mandatory.
 */
export function object<T extends object>(members: Members<T>, ...required: (keyof T & string)[]): Field<T> {
  const fields = new Map<string, Field<unknown>>(Object.entries(members) as [string, Field<unknown>][]);
  return (value, path) => {
    if (typeof value !== "object" || value === null) throw invalid("Invalid object", path);
    const inner = (name: string) => (path === "" ? name : `${path}[${name}]`);
    const result: Record<string, unknown> = {};
    for (const [name, item] of Object.entries(value)) {
      const field = fields.get(name);
      if (!field)
        throw invalid(`Received unknown parameter: ${inner(name)}`, inner(name), "parameter_unknown");
      result[name] = field(item, inner(name));
    }
    for (const name of required)
      if (!(name in result))
        throw invalid(`Missing required param: ${inner(name)}.`, inner(name), "parameter_missing");
    return result as T;
  };
}

export const address = object<Stripe.AddressParam>({
  city: text,
  country: text,
  line1: text,
  line2: text,
  postal_code: text,
  state: text,
});

/** A time or a range of times, to filter a list. */
export const range = either(
  natural,
  object<Stripe.RangeQueryParam>({ gt: natural, gte: natural, lt: natural, lte: natural }),
);

/** Whether a time is in the requested range. */
export function isWithin(range: Stripe.RangeQueryParam | number | undefined, time: number): boolean {
  if (range === undefined) return true;
  if (typeof range === "number") return time === range;
  const { gt = -1, gte = 0, lt = Number.POSITIVE_INFINITY, lte = Number.POSITIVE_INFINITY } = range;
  return time > gt && time >= gte && time < lt && time <= lte;
}

/** Returns metadata after a change: an empty text removes a key, the empty string all. */
export function mergeMetadata(
  old: Stripe.Metadata | null | undefined,
  change: Stripe.Emptyable<Stripe.MetadataParam> | undefined,
): Stripe.Metadata {
  if (change === "" || change === null) return {};
  const merged = Object.entries({ ...old, ...change }).map(([key, value]) => [key, String(value)] as const);
  return Object.fromEntries(merged.filter(([, value]) => value !== ""));
}
