/** Members that Stripe shows only when a request expands them, by the kind of their object. */
export const ON_REQUEST = {
  coupon: ["applies_to"],
  customer: ["subscriptions"],
  invoice: ["payments"],
  "checkout.session": ["line_items"],
} as const;

/** How many lines of an invoice Stripe shows with it; a request of its own lists all. */
export const SHOWN_LINES = 10;

export type Json = { [name: string]: unknown };

const HIDDEN = new Map<unknown, readonly string[]>(Object.entries(ON_REQUEST));

/** Returns an object as JSON, without the members in `ON_REQUEST`. */
export function toJson(object: object): Json {
  return copy(object) as Json;
}

/** Copies as JSON would. Most of what the simulator does is this, so nothing is written as text and read again. */
function copy(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copy);
  if ("toJSON" in value && typeof value.toJSON === "function") return value.toJSON();
  const hidden = HIDDEN.get((value as Json).object) ?? [];
  const copied: Json = {};
  for (const [name, member] of Object.entries(value))
    if (member !== undefined && !hidden.includes(name)) copied[name] = copy(member);
  if (copied.object === "invoice") showFirst(copied.lines as { data: unknown[]; has_more: boolean });
  return copied;
}

function showFirst(lines: { data: unknown[]; has_more: boolean }): void {
  lines.has_more = lines.data.length > SHOWN_LINES;
  lines.data.length = Math.min(lines.data.length, SHOWN_LINES);
}
