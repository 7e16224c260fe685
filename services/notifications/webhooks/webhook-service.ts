import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { WebhookService } from "../../../proto/gen/berth/notifications/v1/webhooks_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Db, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound, refuse } from "../../kit/rpc/refusals.ts";
import { bodiesOf } from "./bodies.ts";
import { isSelector, TEST_KIND } from "./kinds.ts";
import type { WebhookSecrets } from "./secrets.ts";
import * as sql from "./sql.ts";
import { requireUrl } from "./target.ts";

type WebhookDeps = { pool: Pool; cursors: Cursors; secrets: WebhookSecrets; allowPrivate: boolean };

/** How long a secret that was replaced signs as well. */
const PREVIOUS_HOURS = 24;

/** The webhooks of an account and their deliveries (docs/webhooks.md#setup). */
export function webhookService(deps: WebhookDeps): ServiceImpl<typeof WebhookService> {
  const { pool, cursors, secrets, allowPrivate } = deps;
  return {
    async createWebhook(req, ctx) {
      const { accountId, description = "", format = "standard" } = req;
      const url = requireUrl(req.url, allowPrivate);
      const events = requireSelectors(req.events) ?? ["*"];
      return effect(pool, ctx, async (tx) => {
        await sql.lockWebhooksOf(tx, accountId);
        await requireQuota(tx, accountId);
        const id = newId("whk");
        const { secret, sealed } = secrets.make(id);
        const made = await sql.insertWebhook(tx, { id, accountId, url, description, events, format, sealed });
        await auditWebhook(tx, ctx, "webhook.create", made, { events: events.join(" "), format });
        return { ...made, secret };
      });
    },

    async listWebhooks(req) {
      const { accountId } = req;
      return cursors.page(`webhooks:${accountId}`, req, (page) => sql.listWebhooks(pool, accountId, page));
    },

    getWebhook: ({ accountId, webhookId: id }) => requireWebhook(pool, { accountId, id }),

    async updateWebhook({ accountId, webhookId: id, url, description, format, enabled, ...req }, ctx) {
      const events = requireSelectors(req.events);
      const changes = { url: url && requireUrl(url, allowPrivate), description, events, format, enabled };
      return transaction(pool, async (tx) => {
        const webhook = (await sql.updateWebhook(tx, { accountId, id }, changes)) ?? throwNotFound();
        if (!webhook.enabled) await sql.dropPending(tx, id);
        const changed = Object.entries(changes).flatMap(([name, value]) =>
          value === undefined ? [] : [name],
        );
        const metadata = { changed: changed.join(" "), enabled: String(webhook.enabled) };
        await auditWebhook(tx, ctx, "webhook.update", webhook, metadata);
        return webhook;
      });
    },

    async deleteWebhook({ accountId, webhookId: id }, ctx) {
      return transaction(pool, async (tx) => {
        const deleted = (await sql.deleteWebhook(tx, { accountId, id })) ?? throwNotFound();
        await auditWebhook(tx, ctx, "webhook.delete", deleted);
        return {};
      });
    },

    async rotateWebhookSecret({ accountId, webhookId: id }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const { secret, sealed } = secrets.make(id);
        const rotated =
          (await sql.rotateSecret(tx, { accountId, id }, sealed, PREVIOUS_HOURS)) ?? throwNotFound();
        await auditWebhook(tx, ctx, "webhook.rotate_secret", rotated);
        return { ...rotated, secret };
      });
    },

    async testWebhook({ accountId, webhookId }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const { format } = await requireEnabled(tx, { accountId, id: webhookId });
        const bodies = bodiesOf({ ...TEST, accountId, metadata: { webhookId } }, new Date());
        const body = format === "slack" ? bodies.slack : bodies.standard;
        return sql.insertDelivery(tx, { id: newId("whd"), webhookId, kind: TEST_KIND, body });
      });
    },

    async listWebhookDeliveries(req) {
      const { accountId, webhookId, state } = req;
      await requireWebhook(pool, { accountId, id: webhookId });
      return cursors.page(`deliveries:${webhookId}:${state ?? ""}`, req, (page) =>
        sql.listDeliveries(pool, webhookId, state, page),
      );
    },

    async getWebhookDelivery({ accountId, webhookId, deliveryId }) {
      await requireWebhook(pool, { accountId, id: webhookId });
      const found = await sql.findDelivery(pool, webhookId, deliveryId);
      if (!found) throw notFound("delivery");
      return found;
    },

    async replayWebhookDelivery({ accountId, webhookId, deliveryId }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const webhook = await requireEnabled(tx, { accountId, id: webhookId });
        const replayed = await sql.replayDelivery(tx, webhookId, deliveryId);
        if (!replayed) {
          if (!(await sql.findDelivery(tx, webhookId, deliveryId))) throw notFound("delivery");
          throw conflict("delivery_pending", "The delivery is still waiting to be sent.");
        }
        await auditWebhook(tx, ctx, "webhook.replay", webhook, { deliveryId, kind: replayed.kind });
        return replayed;
      });
    },
  };
}

const TEST = {
  kind: TEST_KIND,
  title: "This is a test",
  body: "An owner of the account asked Berth to send it.",
} as const;

async function requireWebhook(db: Db, of: { accountId: string; id: string }) {
  return (await sql.findWebhook(db, of)) ?? throwNotFound();
}

/** Returns a webhook to which something may be queued: it is not disabled meanwhile. */
async function requireEnabled(tx: Tx, of: { accountId: string; id: string }) {
  const webhook = (await sql.lockWebhook(tx, of)) ?? throwNotFound();
  if (!webhook.enabled)
    throw conflict("webhook_disabled", "The webhook is disabled. Enable it first, with `enabled: true`.");
  return webhook;
}

async function requireQuota(tx: Tx, accountId: string): Promise<void> {
  if ((await sql.countWebhooks(tx, accountId)) < sql.MAX_WEBHOOKS) return;
  const message = `An account has at most ${sql.MAX_WEBHOOKS} webhooks. Delete one first.`;
  throw refuse(403, "quota_exceeded", message, { context: { limit: sql.MAX_WEBHOOKS } });
}

/** Returns the kinds that a request asks for, each once; undefined when it names none. Throws 422 unknown_kind. */
function requireSelectors(events: string[]): string[] | undefined {
  const unknown = events.findIndex((event) => !isSelector(event));
  if (unknown >= 0)
    throw invalid(
      `events[${unknown}]`,
      "unknown_kind",
      "There is no such kind of event. Name one such as deploy.failed, deploy.* for all that begin so, or * for all.",
    );
  return events.length > 0 ? [...new Set(events)] : undefined;
}

/** The URL may be a secret, such as one of Slack: the record has its host. */
async function auditWebhook(
  tx: Tx,
  ctx: HandlerContext,
  action: string,
  { id, accountId, url }: sql.WebhookRow,
  metadata: Record<string, string> = {},
): Promise<void> {
  const host = new URL(url).host;
  await audit(tx, who(ctx), {
    service: "notifications",
    accountId,
    action,
    target: id,
    metadata: { host, ...metadata },
  });
}

function throwNotFound(): never {
  throw notFound("webhook");
}
