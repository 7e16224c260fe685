import type { ServiceImpl } from "@connectrpc/connect";
import type { UnsubscribeService } from "../../../proto/gen/berth/notifications/v1/unsubscribing_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { kindKeys } from "../kinds/kinds.ts";
import type { Subscription, UnsubscribeLinks } from "../mail/unsubscribe-links.ts";
import type { ChangePreference } from "../preferences/change-preference.ts";
import { type Preference, toPreference } from "../preferences/preference.ts";
import { listChoices } from "../preferences/sql.ts";

type Deps = { pool: Pool; links: UnsubscribeLinks; changePreference: ChangePreference };

/** Unsubscribes by the link in a mail, without signing in (docs/notifications.md#unsubscribing). */
export function unsubscribeService(deps: Deps): ServiceImpl<typeof UnsubscribeService> {
  const { pool, links, changePreference } = deps;

  function read(token: string): Subscription {
    const found = links.read(token);
    if (!found) throw refuse(404, "not_found", "There is no such link. It may have been cut short.");
    return found;
  }

  /** Returns the preferences whose mails a link ends: those that are mailed and not forced. */
  async function findMailed({ userId, of }: Subscription): Promise<Preference[]> {
    const choices = await listChoices(pool, userId);
    return kindKeys
      .map((kind) => toPreference(kind, choices.get(kind)))
      .filter(({ kind, frequency }) => of === kind || of === frequency)
      .filter(({ channel, forceEmail }) => !forceEmail && (channel === "both" || channel === "email"));
  }

  return {
    async getUnsubscription({ token }) {
      const subscription = read(token);
      return { of: subscription.of, preferences: await findMailed(subscription) };
    },

    async unsubscribe({ token }) {
      const subscription = read(token);
      const preferences: Preference[] = [];
      for (const { kind, channel, frequency } of await findMailed(subscription))
        preferences.push(
          await changePreference(subscription.userId, kind, {
            channel: channel === "both" ? "in_app" : "off",
            frequency,
          }),
        );
      return { of: subscription.of, preferences };
    },
  };
}
