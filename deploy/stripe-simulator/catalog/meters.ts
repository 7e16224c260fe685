import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { map, natural, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

/** How old, and how far ahead, the time of a meter event may be. */
const OLDEST_SECONDS = 35 * 24 * 60 * 60;
const AHEAD_SECONDS = 5 * 60;

/** Meters and their events; `onUsage` is called with the customer of each event. */
export function meterRoutes(world: World, onUsage: (customer: string) => void): Route[] {
  const { meters } = world.state;
  const setStatus = (id: string, status: "active" | "inactive") => {
    const meter = need(meters, "meter", id);
    meter.status = status;
    meter.status_transitions.deactivated_at = status === "active" ? null : world.clock.now();
    return meter;
  };
  return [
    route("POST", "/v1/billing/meters", METER, (params) => createMeter(world, params)),
    route("GET", "/v1/billing/meters/:id", object({}), (_, id) => need(meters, "meter", id!)),
    route(
      "POST",
      "/v1/billing/meters/:id",
      object<Stripe.Billing.MeterUpdateParams>({ display_name: text }),
      (change, id) => Object.assign(need(meters, "meter", id!), change),
    ),
    route("POST", "/v1/billing/meters/:id/deactivate", object({}), (_, id) => setStatus(id!, "inactive")),
    route("POST", "/v1/billing/meters/:id/reactivate", object({}), (_, id) => setStatus(id!, "active")),
    listRoute(
      "/v1/billing/meters",
      object<Stripe.Billing.MeterListParams>({ status: oneOf("active", "inactive") }),
      (filter) => select(meters.values(), filter),
    ),
    listRoute(
      "/v1/billing/meters/:id/event_summaries",
      object<Stripe.Billing.MeterListEventSummariesParams>(
        { customer: text, start_time: natural, end_time: natural },
        "customer",
        "start_time",
        "end_time",
      ),
      ({ customer, start_time, end_time }, id) => [
        {
          id: newId("mtrusg"),
          object: "billing.meter_event_summary",
          aggregated_value: usageOf(world, id!, customer, { start: start_time, end: end_time }),
          end_time,
          livemode: false,
          meter: id!,
          start_time,
        } satisfies Stripe.Billing.MeterEventSummary,
      ],
    ),
    route(
      "POST",
      "/v1/billing/meter_events",
      object<Stripe.Billing.MeterEventCreateParams>(
        { event_name: text, payload: map, identifier: text, timestamp: natural },
        "event_name",
        "payload",
      ),
      (params) => {
        const { event, customer } = recordEvent(world, params);
        onUsage(customer);
        return event;
      },
    ),
  ];
}

const METER = object<Stripe.Billing.MeterCreateParams>(
  {
    display_name: text,
    event_name: text,
    default_aggregation: object<Stripe.Billing.MeterCreateParams.DefaultAggregation>(
      { formula: oneOf("count", "last", "sum") },
      "formula",
    ),
    customer_mapping: object<Stripe.Billing.MeterCreateParams.CustomerMapping>(
      { event_payload_key: text, type: oneOf("by_id") },
      "event_payload_key",
      "type",
    ),
    event_time_window: oneOf("day", "hour"),
    value_settings: object<Stripe.Billing.MeterCreateParams.ValueSettings>(
      { event_payload_key: text },
      "event_payload_key",
    ),
  },
  "display_name",
  "event_name",
  "default_aggregation",
);

function createMeter(world: World, params: Stripe.Billing.MeterCreateParams): Stripe.Billing.Meter {
  const { state, clock } = world;
  if (
    [...state.meters.values()].some(
      ({ event_name, status }) => event_name === params.event_name && status === "active",
    )
  )
    throw invalid(`An active meter already exists for event name '${params.event_name}'.`, "event_name");
  const meter = {
    id: newId("mtr_test"),
    object: "billing.meter",
    created: clock.now(),
    customer_mapping: params.customer_mapping ?? { event_payload_key: "stripe_customer_id", type: "by_id" },
    default_aggregation: params.default_aggregation,
    display_name: params.display_name,
    event_name: params.event_name,
    event_time_window: params.event_time_window ?? null,
    livemode: false,
    status: "active",
    status_transitions: { deactivated_at: null },
    updated: clock.now(),
    value_settings: params.value_settings ?? { event_payload_key: "value" },
  } satisfies Stripe.Billing.Meter;
  state.meters.set(meter.id, meter);
  world.emit("billing.meter.created", meter);
  return meter;
}

function recordEvent({ state, clock }: World, params: Stripe.Billing.MeterEventCreateParams) {
  const { event_name, payload, timestamp = clock.now(), identifier = newId("mtrevt") } = params;
  const meter = [...state.meters.values()].find(
    (candidate) => candidate.event_name === event_name && candidate.status === "active",
  );
  if (!meter)
    throw invalid(`No active meter found for event name '${event_name}'.`, "event_name", "no_meter");
  if (timestamp < clock.now() - OLDEST_SECONDS)
    throw invalid(
      "The timestamp is more than 35 days in the past.",
      "timestamp",
      "timestamp_too_far_in_past",
    );
  if (timestamp > clock.now() + AHEAD_SECONDS)
    throw invalid("The timestamp is more than 5 minutes in the future.", "timestamp", "timestamp_in_future");
  const customerKey = meter.customer_mapping.event_payload_key;
  const customer = needCustomer(state, payload[customerKey], `payload[${customerKey}]`).id;
  const valueKey = meter.value_settings.event_payload_key;
  if (
    meter.default_aggregation.formula !== "count" &&
    !/^-?\d{1,15}(\.\d{1,12})?$/.test(payload[valueKey] ?? "")
  )
    throw invalid("The value must be a number.", `payload[${valueKey}]`, "meter_event_invalid_value");
  if (state.meterEvents.has(identifier))
    throw invalid(
      `An event already exists with identifier ${identifier}.`,
      "identifier",
      "duplicate_meter_event",
    );
  const event = {
    object: "billing.meter_event",
    created: clock.now(),
    event_name,
    identifier,
    livemode: false,
    payload,
    timestamp,
  } satisfies Stripe.Billing.MeterEvent;
  state.meterEvents.set(identifier, event);
  return { event, customer };
}

/** Returns the usage of a customer in a period, aggregated by the meter's formula. */
export function usageOf(
  { state }: World,
  meterId: string,
  customer: string,
  period: { start: number; end: number },
): number {
  const meter = need(state.meters, "meter", meterId);
  const valueKey = meter.value_settings.event_payload_key;
  const events = [...state.meterEvents.values()].filter(
    ({ event_name, payload, timestamp }) =>
      event_name === meter.event_name &&
      payload[meter.customer_mapping.event_payload_key] === customer &&
      timestamp >= period.start &&
      timestamp < period.end,
  );
  const { formula } = meter.default_aggregation;
  if (formula === "count") return events.length;
  const values = events
    .toSorted((a, b) => a.timestamp - b.timestamp)
    .map(({ payload }) => Number(payload[valueKey]));
  return formula === "last" ? (values.at(-1) ?? 0) : values.reduce((sum, value) => sum + value, 0);
}
