import type Stripe from "stripe";
import { addIntervals } from "../catalog/periods.ts";
import { isMetered } from "../catalog/prices.ts";
import type { DiscountRequest } from "../catalog/promotion-codes.ts";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, mergeMetadata, natural, object, oneOf, text } from "../http/params.ts";
import { type Route, route } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { buildItem, needPrice, toPlan } from "./build.ts";

type Params = Stripe.SubscriptionScheduleUpdateParams;
type Phase = Stripe.SubscriptionSchedule.Phase;

const behavior = oneOf("always_invoice", "create_prorations", "none");

const UPDATE = object<Params>({
  end_behavior: oneOf("cancel", "release"),
  metadata: clearable(map),
  phases: list(
    object<Stripe.SubscriptionScheduleUpdateParams.Phase>(
      {
        start_date: natural,
        end_date: natural,
        duration: object<Stripe.SubscriptionScheduleUpdateParams.Phase.Duration>(
          { interval: oneOf("day", "month", "week", "year"), interval_count: natural },
          "interval",
        ),
        items: list(
          object<Stripe.SubscriptionScheduleUpdateParams.Phase.Item>({ price: text, quantity: natural }),
        ),
        discounts: clearable(
          list(object<DiscountRequest>({ coupon: text, discount: text, promotion_code: text })),
        ),
        automatic_tax: object<Stripe.SubscriptionScheduleUpdateParams.Phase.AutomaticTax>(
          { enabled: flag },
          "enabled",
        ),
        proration_behavior: behavior,
      },
      "items",
    ),
  ),
  proration_behavior: behavior,
});

/** Schedules, which change the items of a subscription when a period ends. */
export function scheduleRoutes(world: World): Route[] {
  const { schedules, subscriptions } = world.state;
  const needActive = (id: string) => {
    const schedule = need(schedules, "subscription schedule", id);
    if (schedule.status === "active") return schedule;
    throw invalid(
      `You cannot update a subscription schedule that is currently in the \`${schedule.status}\` status.`,
      "id",
    );
  };
  return [
    route(
      "POST",
      "/v1/subscription_schedules",
      object<Stripe.SubscriptionScheduleCreateParams>({ from_subscription: text }, "from_subscription"),
      ({ from_subscription: id }) => {
        const subscription = need(subscriptions, "subscription", id!, "from_subscription");
        return createSchedule(world, subscription);
      },
    ),
    route("GET", "/v1/subscription_schedules/:id", object({}), (_, id) =>
      need(schedules, "subscription schedule", id!),
    ),
    route("POST", "/v1/subscription_schedules/:id", UPDATE, (params, id) =>
      updateSchedule(world, needActive(id!), params),
    ),
    route(
      "POST",
      "/v1/subscription_schedules/:id/release",
      object<Stripe.SubscriptionScheduleReleaseParams>({ preserve_cancel_date: flag }),
      ({ preserve_cancel_date: isEndKept = false }, id) => release(world, needActive(id!), isEndKept),
    ),
  ];
}

/** Adds a schedule whose only phase is the current period of a subscription. */
function createSchedule(world: World, subscription: Stripe.Subscription): Stripe.SubscriptionSchedule {
  const { state, clock, emit } = world;
  if (subscription.schedule !== null)
    throw invalid(
      `You cannot migrate a subscription that is already attached to a schedule: \`${idOf(subscription.schedule)}\`.`,
      "from_subscription",
    );
  if (!["active", "past_due", "trialing", "unpaid"].includes(subscription.status))
    throw invalid(
      `You cannot migrate a subscription that is \`${subscription.status}\`.`,
      "from_subscription",
    );
  const licensed = subscription.items.data.filter(({ price }) => !isMetered(price));
  const start_date = Math.max(...licensed.map((item) => item.current_period_start));
  const end_date = Math.max(...licensed.map((item) => item.current_period_end));
  const items = subscription.items.data.map(({ price, quantity }) => ({
    price: price.id,
    ...(quantity !== undefined && { quantity }),
  }));
  const discounts = subscription.discounts.map((discount) => ({ discount: idOf(discount) }));
  const { enabled } = subscription.automatic_tax;
  const schedule = {
    id: newId("sub_sched"),
    object: "subscription_schedule",
    application: null,
    billing_mode: { flexible: null, type: subscription.billing_mode.type, updated_at: clock.now() },
    canceled_at: null,
    completed_at: null,
    created: clock.now(),
    current_phase: { start_date, end_date },
    customer: idOf(subscription.customer),
    customer_account: null,
    default_settings: {
      application_fee_percent: null,
      billing_cycle_anchor: "automatic",
      billing_thresholds: null,
      collection_method: "charge_automatically",
      default_payment_method: null,
      description: null,
      invoice_settings: {
        account_tax_ids: null,
        custom_fields: null,
        days_until_due: null,
        description: null,
        footer: null,
        issuer: { type: "self" },
      },
      on_behalf_of: null,
      transfer_data: null,
    },
    end_behavior: "release",
    livemode: false,
    metadata: {},
    pause_schedules: [],
    phases: [toPhase(world, { items, discounts, automatic_tax: { enabled } }, start_date, end_date)],
    released_at: null,
    released_subscription: null,
    status: "active",
    subscription: subscription.id,
    test_clock: null,
  } satisfies Stripe.SubscriptionSchedule;
  state.schedules.set(schedule.id, schedule);
  subscription.schedule = schedule.id;
  emit("subscription_schedule.created", schedule);
  emit("customer.subscription.updated", subscription);
  return schedule;
}

/** Sets the phases of a schedule: its current one as it is, and those that follow. */
function updateSchedule(
  world: World,
  schedule: Stripe.SubscriptionSchedule,
  { phases, metadata, end_behavior }: Params,
): Stripe.SubscriptionSchedule {
  if (end_behavior !== undefined) schedule.end_behavior = end_behavior as "cancel" | "release";
  if (phases !== undefined) {
    const [first, ...next] = phases;
    const current = schedule.current_phase!;
    if (!first || first.start_date !== current.start_date)
      throw invalid("The start date of the current phase cannot be changed.", "phases[0][start_date]");
    const made: Phase[] = [];
    for (const phase of [first, ...next]) {
      const start = made.at(-1)?.end_date ?? current.start_date;
      made.push(toPhase(world, phase, start, endOf(phase, start)));
    }
    schedule.phases = made;
    schedule.current_phase = { start_date: current.start_date, end_date: schedule.phases[0]!.end_date };
  }
  schedule.metadata = mergeMetadata(schedule.metadata, metadata);
  world.emit("subscription_schedule.updated", schedule);
  const subscription = world.state.subscriptions.get(idOf(schedule.subscription ?? ""));
  const end = schedule.end_behavior === "cancel" ? schedule.phases.at(-1)!.end_date : null;
  if (subscription) setEnd(world, subscription, end);
  return schedule;
}

/** Sets when a subscription ends with its schedule. */
function setEnd(world: World, subscription: Stripe.Subscription, at: number | null): void {
  if (subscription.cancel_at === at) return;
  subscription.cancel_at = at;
  subscription.cancel_at_period_end = false;
  subscription.canceled_at = at === null ? null : world.clock.now();
  world.emit("customer.subscription.updated", subscription);
}

function endOf({ end_date, duration }: NonNullable<Params["phases"]>[number], start: number): number {
  if (typeof end_date === "number") return end_date;
  if (!duration) throw invalid("The last phase needs an end_date or a duration.", "phases");
  return addIntervals(
    start,
    { interval: duration.interval as "month", interval_count: duration.interval_count ?? 1 },
    1,
  );
}

type PhaseContent = Pick<NonNullable<Params["phases"]>[number], "items" | "discounts" | "automatic_tax">;

function toPhase(
  world: World,
  { items, discounts, automatic_tax: tax }: PhaseContent,
  start_date: number,
  end_date: number,
): Phase {
  return {
    add_invoice_items: [],
    application_fee_percent: null,
    automatic_tax: { disabled_reason: null, enabled: tax?.enabled ?? false, liability: null },
    billing_cycle_anchor: null,
    billing_thresholds: null,
    collection_method: null,
    currency: "usd",
    default_payment_method: null,
    default_tax_rates: [],
    description: null,
    discounts: (discounts || []).map(({ coupon, discount, promotion_code }) => ({
      coupon: coupon ?? null,
      discount: discount ?? null,
      promotion_code: promotion_code ?? null,
    })),
    end_date,
    invoice_settings: null,
    items: items.map(({ price: id, quantity }) => {
      const price = needPrice(world, id ?? "", "phases");
      const plan = toPlan(price).id;
      const content = { billing_thresholds: null, discounts: [], metadata: {}, plan, price: price.id };
      return { ...content, ...(quantity !== undefined && { quantity }), tax_rates: [] };
    }),
    metadata: {},
    on_behalf_of: null,
    proration_behavior: "none",
    start_date,
    transfer_data: null,
    trial_end: null,
  } satisfies Phase;
}

/** Ends a schedule; its subscription goes on as it is, and without the end that the schedule set unless that is kept. */
function release(
  world: World,
  schedule: Stripe.SubscriptionSchedule,
  isEndKept = false,
): Stripe.SubscriptionSchedule {
  const subscription = world.state.subscriptions.get(idOf(schedule.subscription ?? ""));
  if (subscription && schedule.end_behavior === "cancel" && !isEndKept) setEnd(world, subscription, null);
  schedule.status = "released";
  schedule.released_at = world.clock.now();
  schedule.released_subscription = subscription?.id ?? null;
  schedule.subscription = null;
  schedule.current_phase = null;
  if (subscription) subscription.schedule = null;
  world.emit("subscription_schedule.released", schedule);
  if (subscription) world.emit("customer.subscription.updated", subscription);
  return schedule;
}

/**
 * Begins the phase of a subscription's schedule that is due, if one is, and returns its new items: an item whose price the
 * phase has too goes on, all others are replaced. Releases a schedule that is over.
 */
export function enterPhase(world: World, subscription: Stripe.Subscription): Stripe.SubscriptionItem[] {
  const now = world.clock.now();
  const schedule = world.state.schedules.get(idOf(subscription.schedule ?? ""));
  if (!schedule) return [];
  const phase = schedule.phases.find(({ start_date, end_date }) => start_date <= now && now < end_date);
  if (!phase) release(world, schedule);
  if (!phase || phase.start_date === schedule.current_phase?.start_date) return [];
  const { start_date, end_date } = phase;
  schedule.current_phase = { start_date, end_date };
  const intervalOf = (items: Stripe.SubscriptionItem[]) =>
    items.find(({ price }) => !isMetered(price))?.price.recurring?.interval;
  const wanted = new Map(phase.items.map(({ price, quantity }) => [idOf(price), quantity]));
  const kept = subscription.items.data.filter(({ price }) => wanted.has(price.id));
  for (const item of kept) {
    const quantity = wanted.get(item.price.id);
    if (quantity !== undefined) item.quantity = quantity;
  }
  const build = (anchor: number) =>
    [...wanted]
      .filter(([price]) => !kept.some((item) => item.price.id === price))
      .map(([price, quantity]) => buildItem(world, subscription.id, { price, quantity }, anchor));
  const other = build(now);
  // As at Stripe: another interval counts from the change.
  const isOther =
    intervalOf(other) !== undefined && intervalOf(other) !== intervalOf(subscription.items.data);
  if (isOther) subscription.billing_cycle_anchor = now;
  const fresh = isOther ? other : build(subscription.billing_cycle_anchor);
  subscription.items.data = [...fresh, ...kept];
  const discounts = new Set(phase.discounts.map(({ discount }) => idOf(discount ?? "")));
  subscription.discounts = subscription.discounts.filter((discount) => discounts.has(idOf(discount)));
  subscription.automatic_tax.enabled = phase.automatic_tax?.enabled ?? false;
  world.emit("subscription_schedule.updated", schedule);
  return fresh;
}
