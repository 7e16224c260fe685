import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Running } from "../../kit/process/process.ts";
import { causeOf } from "../../kit/rpc/errors.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import type { Provider } from "../stripe/provider.ts";
import { CARRY_CANCELLATIONS_ON, toCause } from "../tasks.ts";
import type { CarryOn } from "./carry-on.ts";
import { endOf, isOver } from "./end-subscription.ts";
import * as sql from "./sql.ts";

const BATCH = 20;
/** After this, a request to end a subscription that was not answered has no effect any more. */
const UNCERTAIN_MS = 600_000;

type Deps = { pool: Pool; provider: Provider; lock: AccountLock; carryOn: CarryOn; log: Logger };

/** Carries cancellations on that were left: by a process that ended, or because the provider did not answer. */
export function startCancellations({ pool, provider, lock, carryOn, log }: Deps): Running {
  async function carryAllOn(signal: AbortSignal): Promise<void> {
    for (const { accountId, subscriptionId } of await sql.takeCancellations(pool, BATCH)) {
      if (signal.aborted) return;
      await lock(accountId, () => resume(subscriptionId)).catch((error) =>
        log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a cancellation waits"),
      );
    }
  }

  async function resume(subscriptionId: string): Promise<void> {
    const found = await sql.findCancellation(pool, subscriptionId);
    const cancellation = found?.step === "uncertain" ? await learn(found) : found;
    if (!cancellation) return;
    if (cancellation.kind === "duplicate" && cancellation.step === "asked")
      log.warn({ subscription: subscriptionId }, "an account had subscribed twice: the second one ends");
    await carryOn(cancellation);
  }

  /** Returns a cancellation whose outcome was not known, if it happened after all. */
  async function learn({ subscriptionId, askedAt }: sql.Cancellation) {
    const subscription = await provider.ask((stripe) => stripe.subscriptions.retrieve(subscriptionId));
    if (isOver(subscription))
      return sql.setEnded(pool, subscriptionId, new Date(endOf(subscription) * 1_000));
    if (Date.now() - timestampMs(askedAt) > UNCERTAIN_MS) await sql.deleteCancellation(pool, subscriptionId);
    return undefined;
  }

  return startTask(CARRY_CANCELLATIONS_ON, carryAllOn, { log, toLog: toCause });
}
