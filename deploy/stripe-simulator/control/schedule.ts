import { expire } from "../checkout/routes.ts";
import { collect, finalizeAndCollect } from "../collection/collect.ts";
import type { Schedule } from "../state/clock.ts";
import type { World } from "../state/world.ts";
import { advance, nextStep } from "../subscriptions/cycle.ts";

type Due = { at: number; run: () => void };

/** Returns Stripe's scheduled work: sessions expire, subscriptions renew and end, invoices are finalized and collected. */
export function createSchedule(world: World): Schedule {
  function* all(): Generator<Due> {
    const { checkoutSessions, subscriptions, invoices } = world.state;
    for (const session of checkoutSessions.values())
      if (session.status === "open") yield { at: session.expires_at, run: () => expire(world, session) };
    for (const subscription of subscriptions.values()) {
      const at = nextStep(subscription);
      if (at !== undefined) yield { at, run: () => advance(world, subscription) };
    }
    for (const invoice of invoices.values()) {
      const { status, auto_advance, automatically_finalizes_at, next_payment_attempt } = invoice;
      if (status === "draft" && auto_advance && automatically_finalizes_at !== null)
        yield { at: automatically_finalizes_at, run: () => finalizeAndCollect(world, invoice) };
      if (status === "open" && next_payment_attempt !== null)
        yield { at: next_payment_attempt, run: () => collect(world, invoice) };
    }
  }
  return {
    due: () => {
      const times = [...all()].map(({ at }) => at);
      return times.length === 0 ? undefined : Math.min(...times);
    },
    run: (now) => {
      for (const { at, run } of [...all()]) if (at <= now) run();
    },
  };
}
