import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { NotificationService } from "../../../proto/gen/berth/notifications/v1/notifications_pb.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import type { ChangeFeed } from "../../kit/postgres/change-feed.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { isNotModified } from "../../kit/rpc/etag.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { invalid, notFound } from "../../kit/rpc/refusals.ts";
import { catalogue, isKind, kindKeys } from "../kinds/kinds.ts";
import type { ChangePreference } from "../preferences/change-preference.ts";
import { type Choice, toPreference } from "../preferences/preference.ts";
import { listChoices } from "../preferences/sql.ts";
import { describeAudience } from "../recipients/audience.ts";
import { followNotifications } from "./follow.ts";
import * as sql from "./sql.ts";

/** The feed of a user, and the preferences that fill it (docs/notifications.md#feed). */
export function notificationService({
  pool,
  cursors,
  changes,
  changePreference,
}: {
  pool: Pool;
  cursors: Cursors;
  changes: ChangeFeed;
  changePreference: ChangePreference;
}): ServiceImpl<typeof NotificationService> {
  const userOf = (ctx: HandlerContext) => who(ctx).caller.id;
  return {
    async listNotifications(req, ctx) {
      const userId = userOf(ctx);
      const unread = req.unread ?? false;
      return cursors.page(
        `notifications:${userId}:${unread}`,
        req,
        (page) => sql.listNotifications(pool, userId, unread, page),
        ({ position }) => position,
      );
    },

    async countUnread(_req, ctx) {
      const count = await sql.countUnread(pool, userOf(ctx));
      return isNotModified(ctx, String(count)) ? {} : { count };
    },

    async markRead({ notificationId }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const read = await sql.markRead(tx, userOf(ctx), notificationId);
        if (!read) throw notFound("notification");
        return read;
      });
    },

    async markAllRead(_req, ctx) {
      return effect(pool, ctx, async (tx) => {
        await sql.markAllRead(tx, userOf(ctx));
        return { count: await sql.countUnread(tx, userOf(ctx)) };
      });
    },

    followNotifications: (request, ctx) => followNotifications({ pool, changes }, request, ctx),

    async getNotificationDecisions({ notificationId }, ctx) {
      const found = await sql.findDecisions(pool, userOf(ctx), notificationId);
      if (!found) throw notFound("notification");
      const { kind, visible, mailState, mailAttempts, mailReason, mailAt } = found;
      const { channel, frequency, overridden } = found;
      const forceEmail = isKind(kind) && catalogue[kind].forced;
      const mail = { state: mailState, attempts: mailAttempts, reason: mailReason, at: mailAt };
      const recipients = describeAudience(kind);
      return { kind, recipients, channel, frequency, forceEmail, overridden, inApp: visible, mail };
    },

    async listNotificationPrefs(_req, ctx) {
      const choices = await listChoices(pool, userOf(ctx));
      return { data: kindKeys.map((kind) => toPreference(kind, choices.get(kind))) };
    },

    async setNotificationPref({ kind, channel, frequency }, ctx) {
      if (!isKind(kind))
        throw invalid(
          "kind",
          "unknown_kind",
          "There is no such kind. GET /me/notification-prefs lists them.",
        );
      return changePreference(userOf(ctx), kind, { channel, frequency } as Choice);
    },
  };
}
