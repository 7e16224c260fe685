/** Members that Stripe shows only when a request expands them, by the kind of their object. */
export const ON_REQUEST = {
  coupon: ["applies_to"],
  customer: ["subscriptions"],
  invoice: ["payments"],
  "checkout.session": ["line_items"],
} as const;

export type Json = { [name: string]: unknown };

/** Returns an object as JSON, without the members in `ON_REQUEST`. */
export function toJson(object: object): Json {
  const onRequest = new Map<unknown, readonly string[]>(Object.entries(ON_REQUEST));
  return JSON.parse(JSON.stringify(object), (_, value) => {
    for (const name of onRequest.get(value?.object) ?? []) delete value[name];
    return value;
  });
}
