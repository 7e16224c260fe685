import { couponRoutes } from "./catalog/coupons.ts";
import { meterRoutes } from "./catalog/meters.ts";
import { priceRoutes } from "./catalog/prices.ts";
import { productRoutes } from "./catalog/products.ts";
import { promotionCodeRoutes } from "./catalog/promotion-codes.ts";
import { checkoutPage } from "./checkout/page.ts";
import { checkoutRoutes } from "./checkout/routes.ts";
import { invoicePage } from "./collection/invoice-page.ts";
import { invoiceRoutes } from "./collection/invoice-routes.ts";
import { homePage } from "./control/home-page.ts";
import { type Controls, control } from "./control/routes.ts";
import { createSchedule } from "./control/schedule.ts";
import { customerRoutes } from "./customers/customers.ts";
import { paymentMethodRoutes } from "./customers/payment-methods.ts";
import { createWebhooks } from "./events/deliveries.ts";
import { createEmit } from "./events/emit.ts";
import { createEndpoint, eventRoutes } from "./events/routes.ts";
import { createFaults } from "./http/faults.ts";
import type { Route, SimpleRequest, SimpleResponse } from "./http/routes.ts";
import { creditGrantRoutes } from "./invoices/credit-grants.ts";
import { creditNoteRoutes } from "./invoices/credit-notes.ts";
import { disputeRoutes } from "./invoices/disputes.ts";
import { invoiceItemRoutes } from "./invoices/invoice-items.ts";
import { previewRoutes } from "./invoices/preview.ts";
import { refundRoutes } from "./invoices/refunds.ts";
import { taxRoutes } from "./invoices/taxes.ts";
import { refreshDrafts } from "./invoices/totals.ts";
import { portalConfigurationRoutes } from "./portal/configurations.ts";
import { portalPage } from "./portal/page.ts";
import { portalSessionRoutes } from "./portal/sessions.ts";
import { type Check, listen } from "./server/server.ts";
import { createClock } from "./state/clock.ts";
import { newId } from "./state/ids.ts";
import { openState } from "./state/state.ts";
import type { World } from "./state/world.ts";
import { endAllOf } from "./subscriptions/cancel.ts";
import { subscriptionItemRoutes } from "./subscriptions/item-routes.ts";
import { subscriptionRoutes } from "./subscriptions/routes.ts";
import { scheduleRoutes } from "./subscriptions/schedules.ts";

/** How often the schedule is checked for work that is due. */
const TICK_MS = 1_000;

export type StripeOptions = {
  /** The port on the loopback address; 0, or none, is any free one. */
  port?: number;
  /** The folder that stores the state; without one it is only in memory. */
  dir?: string;
  /** Where all events are sent, signed with `secret` (`whsec_…`). */
  webhookUrl?: string;
  secret?: string;
  /** Requests with objections are answered with 400. */
  check?: Check;
  /** The real time in milliseconds, at whose speed the clock runs: one that stands still makes tests exact. */
  realTime?: () => number;
};

/** Starts a simulator of the part of Stripe's API that Berth uses. See README.md. */
export async function startStripe(options: StripeOptions = {}) {
  const { port = 0, dir, webhookUrl, secret, check, realTime } = options;
  const { state, save, retrySave } = openState(dir);
  const server = await listen(port);
  const clock = createClock(state.clock, realTime);
  const webhooks = createWebhooks({ state, clock }, save);
  const emit = createEmit({ state, clock }, webhooks.schedule);
  const world: World = { state, clock, url: server.url, emit };
  const schedule = createSchedule(world);
  const faults = createFaults();
  const changed = () => {
    save();
    void webhooks.pump();
  };
  const settle = () => {
    if (clock.settle(schedule) > 0) changed();
    else void webhooks.pump();
  };
  const controlClock = {
    now: clock.now,
    /** Advances the clock and runs the work that falls due until then. */
    advance: (seconds: number) => {
      clock.moveTo(schedule, clock.now() + seconds);
      changed();
    },
    /** Returns when something falls due next. */
    next: () => schedule.due(),
  };
  const controls: Controls = { world, clock: controlClock, faults, webhooks };
  if (webhookUrl !== undefined) setWebhook(world, webhookUrl, secret ?? newId("whsec", 32));
  settle();
  server.serve({
    world,
    routes: allRoutes(world),
    faults,
    check,
    before: settle,
    changed,
    other: (request) => answerOther(controls, request, changed),
  });
  const ticks = setInterval(() => {
    retrySave();
    settle();
  }, TICK_MS).unref();
  return {
    url: server.url,
    clock: controlClock,
    faults,
    webhooks,
    stop: async () => {
      clearInterval(ticks);
      await webhooks.stop();
      await server.stop();
      save();
    },
  };
}

export function allRoutes(world: World): Route[] {
  return [
    ...productRoutes(world),
    ...priceRoutes(world),
    ...couponRoutes(world),
    ...promotionCodeRoutes(world),
    ...meterRoutes(world, (customer) => refreshDrafts(world, customer)),
    ...customerRoutes(world, (customer) => endAllOf(world, customer)),
    ...paymentMethodRoutes(world),
    ...checkoutRoutes(world),
    ...subscriptionRoutes(world),
    ...subscriptionItemRoutes(world),
    ...scheduleRoutes(world),
    ...invoiceItemRoutes(world),
    ...previewRoutes(world),
    ...invoiceRoutes(world),
    ...creditNoteRoutes(world),
    ...creditGrantRoutes(world),
    ...refundRoutes(world),
    ...disputeRoutes(world),
    ...taxRoutes(world),
    ...portalConfigurationRoutes(world),
    ...portalSessionRoutes(world),
    ...eventRoutes(world),
  ];
}

/** The id of the endpoint given at the start. Its URL may change with each start. */
const OWN_ENDPOINT = "we_own";

/** Sends all events, including pending ones, to a URL. */
function setWebhook({ state, clock }: World, url: string, secret: string): void {
  const endpoint = createEndpoint({ url, enabled_events: ["*"] }, clock.now(), secret);
  state.webhookEndpoints.set(OWN_ENDPOINT, { ...endpoint, id: OWN_ENDPOINT });
}

async function answerOther(
  controls: Controls,
  request: SimpleRequest,
  changed: () => void,
): Promise<SimpleResponse> {
  const [, kind = "", id = ""] = request.path.split("/");
  const show = PAGES[kind];
  const answered =
    kind === "_sim"
      ? await control(controls, request)
      : kind === ""
        ? homePage(controls, request)
        : (controls.world.clock.atOnce(() => show?.(controls.world, id, request)) ?? NOT_FOUND);
  if (request.method !== "GET") changed();
  return answered;
}

const NOT_FOUND: SimpleResponse = { status: 404, body: "Not found\n" };

/** The pages for people, by the first part of their paths. */
const PAGES: Record<string, (world: World, id: string, request: SimpleRequest) => SimpleResponse> = {
  c: checkoutPage,
  i: invoicePage,
  p: portalPage,
};
