import { couponRoutes } from "./catalog/coupons.ts";
import { meterRoutes } from "./catalog/meters.ts";
import { priceRoutes } from "./catalog/prices.ts";
import { productRoutes } from "./catalog/products.ts";
import { promotionCodeRoutes } from "./catalog/promotion-codes.ts";
import { checkoutPage } from "./checkout/page.ts";
import { checkoutRoutes } from "./checkout/routes.ts";
import { createFaults } from "./control/faults.ts";
import { type Controls, control } from "./control/routes.ts";
import { createSchedule } from "./control/schedule.ts";
import { customerRoutes } from "./customers/customers.ts";
import { paymentMethodRoutes } from "./customers/payment-methods.ts";
import { createWebhooks } from "./events/deliveries.ts";
import { createEmit } from "./events/emit.ts";
import { createEndpoint, eventRoutes } from "./events/routes.ts";
import type { Route } from "./http/routes.ts";
import { type Check, listen, type SimpleRequest, type SimpleResponse } from "./http/server.ts";
import { creditGrantRoutes } from "./invoices/credit-grants.ts";
import { creditNoteRoutes } from "./invoices/credit-notes.ts";
import { invoiceItemRoutes } from "./invoices/invoice-items.ts";
import { previewRoutes } from "./invoices/preview.ts";
import { refundRoutes } from "./invoices/refunds.ts";
import { invoiceRoutes, refreshDrafts } from "./invoices/routes.ts";
import { homePage } from "./pages/home.ts";
import { invoicePage } from "./pages/invoice-page.ts";
import { portalConfigurationRoutes } from "./portal/configurations.ts";
import { portalPage } from "./portal/page.ts";
import { portalSessionRoutes } from "./portal/sessions.ts";
import { createClock } from "./state/clock.ts";
import { newId } from "./state/ids.ts";
import { openState } from "./state/state.ts";
import type { World } from "./state/world.ts";
import { endAllOf } from "./subscriptions/cancel.ts";
import { subscriptionItemRoutes } from "./subscriptions/item-routes.ts";
import { subscriptionRoutes } from "./subscriptions/routes.ts";

/** How often work that fell due by itself is looked for. */
const TICK_MS = 1_000;

export type StripeOptions = {
  /** The port on the loopback address; 0, or none, is any free one. */
  port?: number;
  /** The folder that keeps the state over restarts; without one it is in memory alone. */
  dir?: string;
  /** Where all events are sent to, signed with `secret` (`whsec_…`). */
  webhookUrl?: string;
  secret?: string;
  /** Complaints are answered with 400. */
  check?: Check;
};

export type StripeSimulator = Awaited<ReturnType<typeof startStripe>>;

/** Starts a simulator of the part of Stripe's API that Berth uses. See README.md. */
export async function startStripe({ port = 0, dir, webhookUrl, secret, check }: StripeOptions = {}) {
  const { state, save, saveLeft } = openState(dir);
  const server = await listen(port);
  const clock = createClock(state.clock);
  const world: World = { state, clock, url: server.url, emit: () => {} };
  const webhooks = createWebhooks(world, save);
  world.emit = createEmit(() => world, webhooks.schedule);
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
  const moves = {
    now: clock.now,
    /** Moves the clock ahead, and does what falls due until then. */
    advance: (seconds: number) => {
      clock.moveTo(schedule, clock.now() + seconds);
      changed();
    },
    /** Returns when something falls due next. */
    next: () => schedule.due(),
  };
  const controls: Controls = { world, clock: moves, faults, webhooks };
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
    saveLeft();
    settle();
  }, TICK_MS).unref();
  return {
    url: server.url,
    clock: moves,
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
    ...invoiceItemRoutes(world),
    ...previewRoutes(world),
    ...invoiceRoutes(world),
    ...creditNoteRoutes(world),
    ...creditGrantRoutes(world),
    ...refundRoutes(world),
    ...portalConfigurationRoutes(world),
    ...portalSessionRoutes(world),
    ...eventRoutes(world),
  ];
}

/** The endpoint that the simulator is started with. Its URL may be another one at each start. */
const OWN_ENDPOINT = "we_own";

/** Sends all events, also those that wait, to a URL. */
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
        : (show?.(controls.world, id, request) ?? { status: 404, body: "Not found\n" });
  if (request.method !== "GET") changed();
  return answered;
}

/** The pages for people, by the first part of their paths. */
const PAGES: Record<string, (world: World, id: string, request: SimpleRequest) => SimpleResponse> = {
  c: checkoutPage,
  i: invoicePage,
  p: portalPage,
};
