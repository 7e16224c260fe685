import { timestampNow } from "@bufbuild/protobuf/wkt";
import { WebhookDisabledSchema } from "../../../../proto/gen/berth/notifications/v1/events_pb.ts";
import { createPastSlow } from "../../../kit/concurrency/past-slow.ts";
import { audit } from "../../../kit/events/audit.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Logger } from "../../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { type Next, startTask } from "../../../kit/tasks/task.ts";
import { DELIVER_WEBHOOKS } from "../../tasks.ts";
import { signedHeaders, type WebhookSecrets } from "../secrets.ts";
import { attempts, watchQueue } from "./metrics.ts";
import { type Answer, MAX_TRIES, type Outcome, outcomeOf } from "./outcome.ts";
import type { Post } from "./post.ts";
import * as sql from "./sql.ts";

/** How many deliveries are under way at once, besides those that are slow. */
const AT_ONCE = 20;
const MOST_AT_ONCE = 500;
/** How many are under way to one webhook, in all processes. */
const PER_WEBHOOK = 2;
/** How long no other process takes a delivery that one took; longer than an attempt may last. */
const LEASE_SECONDS = 60;
/** What is gone was the receiver at a URL that the webhook no longer has. */
const AGAIN: Outcome = { state: "pending", retrySeconds: 0, last: false, gone: false };

type DelivererOptions = { pool: Pool; log: Logger; post: Post; secrets: WebhookSecrets };

/**
 * Sends the deliveries that are due. One that is sent again, because the process died before it recorded the answer,
 * has the same webhook-id.
 */
export function startDeliverer({ pool, log, post, secrets }: DelivererOptions) {
  async function deliver(delivery: sql.TakenDelivery): Promise<void> {
    const answer: Answer = delivery.tries > MAX_TRIES ? { error: "interrupted" } : await send(delivery);
    const outcome = outcomeOf(delivery, answer);
    await transaction(pool, (tx) => record(tx, delivery, answer, outcome));
    attempts.inc({ outcome: outcome.state === "pending" ? "retrying" : outcome.state });
    const about = { delivery: delivery.id, webhook: delivery.webhookId, tries: delivery.tries, ...answer };
    // Neither the URL nor the body is logged: both may hold secrets of users.
    if (outcome.state !== "delivered") log.info(about, "an event could not be delivered to a webhook");
  }

  function send({ id, webhookId, url, body, secrets: sealed }: sql.TakenDelivery): Promise<Answer> {
    const opened = sealed.map((one) => secrets.open(webhookId, one));
    const headers = signedHeaders({ id, seconds: Math.floor(Date.now() / 1_000), body }, opened);
    return post(new URL(url), headers, body);
  }

  /** Takes as many deliveries as may be under way besides those that are. */
  async function takeSome(): Promise<Next> {
    const limit = sending.room();
    if (limit === 0) return undefined;
    const taking = { limit, leaseSeconds: LEASE_SECONDS, perWebhook: PER_WEBHOOK };
    const taken = await transaction(pool, (tx) => sql.takeDeliveries(tx, taking));
    for (const delivery of taken)
      sending.begin(
        deliver(delivery).catch((error) =>
          log.warn({ err: error }, "what became of a delivery could not be recorded"),
        ),
      );
    return taken.length === limit ? "more" : undefined;
  }

  const unwatch = watchQueue(pool);
  const sending = createPastSlow({ atOnce: AT_ONCE, most: MOST_AT_ONCE }, () => task.wake());
  const task = startTask(DELIVER_WEBHOOKS, takeSome, { log });
  return {
    /** Takes no more. What is under way is recorded if it ends soon, and sent again by another process otherwise. */
    stop: async () => {
      unwatch();
      await sending.settle(task.stop());
    },
  };
}

/** Records an attempt, and disables a webhook whose receiver is gone or failed for long. */
async function record(tx: Tx, delivery: sql.TakenDelivery, answer: Answer, outcome: Outcome): Promise<void> {
  const { id, webhookId, tries } = delivery;
  const { status, error } = { status: undefined, error: undefined, ...answer };
  const url = await sql.lockForAttempt(tx, webhookId);
  if (url === undefined) return;
  const { state, retrySeconds, last, gone } = outcome.gone && url !== delivery.url ? AGAIN : outcome;
  const recorded = await sql.recordAttempt(tx, { id, tries, state, status, error, retrySeconds });
  if (!recorded) return;
  if (state === "delivered") await sql.recordSuccess(tx, webhookId);
  if (gone) await announce(tx, webhookId, "gone", await sql.disableGone(tx, webhookId));
  if (last) await announce(tx, webhookId, "failing", await sql.disableFailing(tx, webhookId, id));
}

async function announce(
  tx: Tx,
  webhookId: string,
  reason: string,
  disabled: sql.Disabled | undefined,
): Promise<void> {
  if (!disabled) return;
  const { accountId, url } = disabled;
  const { host } = new URL(url);
  await emit(tx, WebhookDisabledSchema, accountId, {
    accountId,
    webhookId,
    host,
    reason,
    at: timestampNow(),
  });
  const by = { caller: { kind: "service" as const, id: "notifications", ip: "" }, requestId: "" };
  const metadata = { host, reason };
  await audit(tx, by, {
    service: "notifications",
    accountId,
    action: "webhook.disable",
    target: webhookId,
    metadata,
  });
}
