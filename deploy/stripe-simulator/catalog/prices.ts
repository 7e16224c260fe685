import Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import {
  clearable,
  decimal,
  flag,
  list,
  map,
  mergeMetadata,
  natural,
  object,
  oneOf,
  range,
  text,
} from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { createProduct } from "./products.ts";

const interval = oneOf("day", "week", "month", "year");
const usageType = oneOf("licensed", "metered");
const MOST_LOOKUP_KEYS = 10;

/** Prices: immutable once created, except for their names. */
export function priceRoutes(world: World): Route[] {
  const { prices } = world.state;
  return [
    route(
      "POST",
      "/v1/prices",
      object<Stripe.PriceCreateParams>(
        {
          currency: text,
          active: flag,
          billing_scheme: oneOf("per_unit"),
          lookup_key: text,
          metadata: map,
          nickname: text,
          product: text,
          product_data: object<Stripe.PriceCreateParams.ProductData>(
            { name: text, id: text, metadata: map },
            "name",
          ),
          recurring: object<Stripe.PriceCreateParams.Recurring>(
            { interval, interval_count: natural, meter: text, usage_type: usageType },
            "interval",
          ),
          tax_behavior: oneOf("exclusive", "inclusive", "unspecified"),
          transfer_lookup_key: flag,
          unit_amount: natural,
          unit_amount_decimal: decimal,
        },
        "currency",
      ),
      (params) => createPrice(world, params),
    ),
    route("GET", "/v1/prices/:id", object({}), (_, id) => need(prices, "price", id!)),
    route(
      "POST",
      "/v1/prices/:id",
      object<Stripe.PriceUpdateParams>({
        active: flag,
        lookup_key: text,
        metadata: clearable(map),
        nickname: text,
        tax_behavior: oneOf("exclusive", "inclusive"),
        transfer_lookup_key: flag,
      }),
      ({ metadata, lookup_key, transfer_lookup_key, ...change }, id) => {
        const price = need(prices, "price", id!);
        if (change.tax_behavior && price.tax_behavior !== "unspecified")
          throw invalid("The tax_behavior of a price cannot be changed once it is set.", "tax_behavior");
        if (lookup_key !== undefined)
          takeLookupKey(world, lookup_key, transfer_lookup_key ?? false, price.id);
        Object.assign(price, change, { ...(lookup_key !== undefined && { lookup_key }) });
        price.metadata = mergeMetadata(price.metadata, metadata);
        world.emit("price.updated", price);
        return price;
      },
    ),
    listRoute(
      "/v1/prices",
      object<Stripe.PriceListParams>({
        active: flag,
        created: range,
        currency: text,
        lookup_keys: list(text, MOST_LOOKUP_KEYS),
        product: text,
        recurring: object<Stripe.PriceListParams.Recurring>({ interval, meter: text, usage_type: usageType }),
        type: oneOf("one_time", "recurring"),
      }),
      ({ lookup_keys, recurring, ...filter }) =>
        select(prices.values(), filter).filter(
          (price) =>
            (lookup_keys?.includes(price.lookup_key ?? "") ?? true) &&
            (!recurring || select([price.recurring ?? {}], recurring).length > 0),
        ),
    ),
  ];
}

function createPrice(world: World, params: Stripe.PriceCreateParams): Stripe.Price {
  const { state, clock } = world;
  const { recurring, unit_amount, unit_amount_decimal } = params;
  if ((unit_amount === undefined) === (unit_amount_decimal === undefined))
    throw invalid("You must provide exactly one of unit_amount and unit_amount_decimal.", "unit_amount");
  if ((params.product === undefined) === (params.product_data === undefined))
    throw invalid(
      "You must provide exactly one of product and product_data.",
      "product",
      "parameter_missing",
    );
  if (recurring) checkMeter(world, recurring);
  if (params.product !== undefined) need(state.products, "product", params.product, "product");
  const id = newId("price");
  if (params.lookup_key !== undefined)
    takeLookupKey(world, params.lookup_key, params.transfer_lookup_key ?? false, id);
  const product = params.product ?? createProduct(world, params.product_data!).id;
  const amount = Stripe.Decimal.from(unit_amount_decimal?.toString() ?? unit_amount!);
  const whole = amount.toString().includes(".") ? null : amount.toNumber();
  const price = {
    id,
    object: "price",
    active: params.active ?? true,
    billing_scheme: "per_unit",
    created: clock.now(),
    currency: params.currency,
    custom_unit_amount: null,
    livemode: false,
    lookup_key: params.lookup_key ?? null,
    metadata: mergeMetadata({}, params.metadata),
    nickname: params.nickname ?? null,
    product,
    recurring: recurring
      ? {
          interval: recurring.interval,
          interval_count: recurring.interval_count ?? 1,
          meter: recurring.meter ?? null,
          trial_period_days: null,
          usage_type: recurring.usage_type ?? "licensed",
        }
      : null,
    tax_behavior: params.tax_behavior ?? "unspecified",
    tiers_mode: null,
    transform_quantity: null,
    type: recurring ? "recurring" : "one_time",
    unit_amount: whole,
    unit_amount_decimal: amount,
  } satisfies Stripe.Price;
  state.prices.set(id, price);
  world.emit("price.created", price);
  return price;
}

/** Since 2025-03-31.basil metered prices have a meter, and others have none. */
function checkMeter({ state }: World, { usage_type, meter }: Stripe.PriceCreateParams.Recurring): void {
  if (usage_type === "metered" && meter === undefined)
    throw invalid("A metered price must have a meter.", "recurring[meter]", "parameter_missing");
  if (usage_type !== "metered" && meter !== undefined)
    throw invalid("recurring[meter] is only for metered prices.", "recurring[meter]");
  if (meter !== undefined) need(state.meters, "meter", meter, "recurring[meter]");
}

/** Ensures that no other price has the lookup key: removes it with `transfer`, else throws. */
function takeLookupKey({ state }: World, key: string, transfer: boolean, id: string): void {
  const owner = [...state.prices.values()].find((price) => price.lookup_key === key && price.id !== id);
  if (!owner) return;
  if (!transfer)
    throw invalid(
      `A price (\`${owner.id}\`) already uses that lookup key.`,
      "lookup_key",
      "resource_already_exists",
    );
  owner.lookup_key = null;
}

/** Returns the amount of a quantity at a price, in whole cents. */
export function amountOf(price: Stripe.Price, units: number): number {
  const amount = price.unit_amount_decimal!.mul(Stripe.Decimal.from(units));
  return Number(amount.toFixed(0, "half-up"));
}

/** Returns the id of a price's product. */
export function productOf(price: Stripe.Price): string {
  return idOf(price.product);
}

/** Whether a price is charged by use. */
export function isMetered(price: Stripe.Price): boolean {
  return price.recurring?.usage_type === "metered";
}
