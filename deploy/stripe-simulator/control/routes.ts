import { completeSession, settleSession } from "../checkout/complete.ts";
import { expire } from "../checkout/routes.ts";
import { findCardByNumber } from "../customers/test-cards.ts";
import type { Webhooks } from "../events/deliveries.ts";
import { NO_SWITCHES, type Switches } from "../events/switches.ts";
import { invalid, StripeError } from "../http/errors.ts";
import { FAULTS, type Fault, type Faults } from "../http/faults.ts";
import { need } from "../http/lookup.ts";
import type { SimpleRequest, SimpleResponse } from "../http/routes.ts";
import { dispute } from "../invoices/disputes.ts";
import { failRefund } from "../invoices/refunds.ts";
import type { Clock } from "../state/clock.ts";
import type { World } from "../state/world.ts";

export type Controls = {
  world: World;
  clock: { now: Clock["now"]; advance: (seconds: number) => void; next: () => number | undefined };
  faults: Faults;
  webhooks: Webhooks;
};

/** Handles `/_sim/…`, the endpoints that control the simulator, in JSON. */
export async function control(controls: Controls, request: SimpleRequest): Promise<SimpleResponse> {
  try {
    const body = request.body === "" ? {} : JSON.parse(request.body);
    const done = await run(controls, `${request.method} ${request.path.slice("/_sim/".length)}`, body);
    return json(done === undefined ? 404 : 200, done ?? { error: { message: "There is no such control." } });
  } catch (error) {
    if (error instanceof StripeError) return json(error.status, error.toBody());
    if (error instanceof SyntaxError || error instanceof RangeError)
      return json(400, { error: { message: error.message } });
    throw error;
  }
}

async function run(
  controls: Controls,
  what: string,
  body: Record<string, unknown>,
): Promise<object | undefined> {
  const { clock, faults, webhooks, world } = controls;
  const session = /^POST checkout\/(\w+)\/(complete|expire|fail)$/.exec(what);
  if (session) return runSession(world, session[1]!, session[2]!, body);
  const refund = /^POST refunds\/(\w+)\/fail$/.exec(what);
  if (refund) return failRefund(world, refund[1]!);
  const disputed = /^POST payments\/(\w+)\/dispute$/.exec(what);
  if (disputed)
    return dispute(world, need(world.state.payments, "payment_intent", disputed[1]!), {
      ...(Number.isInteger(body.amount) && { amount: Number(body.amount) }),
      ...(body.reason !== undefined && { reason: String(body.reason) }),
      inquiry: body.inquiry === true,
    });
  switch (what) {
    case "GET clock":
      return { now: clock.now(), next: clock.next() ?? null };
    case "POST clock/advance":
      clock.advance(toSeconds(body, clock.now()));
      return { now: clock.now(), next: clock.next() ?? null };
    case "GET faults":
      return faults.pending();
    case "POST faults":
      faults.add(toFault(body));
      return faults.pending();
    case "DELETE faults":
      faults.clear();
      return faults.pending();
    case "GET webhooks":
      return { switches: webhooks.switches(), pending: webhooks.pending() };
    case "POST webhooks":
      webhooks.set(toSwitches(body));
      return { switches: webhooks.switches(), pending: webhooks.pending() };
    case "POST webhooks/flush":
      await webhooks.flush();
      return { switches: webhooks.switches(), pending: webhooks.pending() };
    default:
      return undefined;
  }
}

function runSession(world: World, id: string, action: string, body: Record<string, unknown>): object {
  const session = need(world.state.checkoutSessions, "checkout.session", id);
  if (action === "expire") return expire(world, session);
  if (session.status === "complete") return settleSession(world, session, action === "complete");
  const number = String(body.card ?? (action === "fail" ? "4000000000000002" : "4242424242424242"));
  const card = findCardByNumber(number);
  if (!card) throw invalid("This is not one of Stripe's test cards.", "card");
  const country = body.country === undefined ? undefined : String(body.country);
  return completeSession(world, session, card, body.payment === "later", country);
}

function toSeconds({ seconds, to }: Record<string, unknown>, now: number): number {
  const ahead = to === undefined ? seconds : Number(to) - now;
  if (typeof ahead !== "number" || !Number.isInteger(ahead) || ahead < 0)
    throw invalid("Give `seconds` to go ahead, or a time `to` go to that is not past.", "seconds");
  return ahead;
}

function toFault({ kind, method, path, times = 1 }: Record<string, unknown>): Fault {
  const known = FAULTS.find((fault) => fault === kind);
  if (!known || !Number.isInteger(times))
    throw invalid(`Give a kind: ${FAULTS.join(", ")}, and whole times.`, "kind");
  return {
    kind: known,
    times: Number(times),
    ...(method !== undefined && { method: String(method) }),
    ...(path !== undefined && { path: String(path) }),
  };
}

function toSwitches(body: Record<string, unknown>): Partial<Switches> {
  for (const [name, value] of Object.entries(body))
    if (!(name in NO_SWITCHES) || !Number.isInteger(value) || Number(value) < 0)
      throw invalid(`Give whole numbers for: ${Object.keys(NO_SWITCHES).join(", ")}.`, name);
  return body as Partial<Switches>;
}

function json(status: number, body: object): SimpleResponse {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
