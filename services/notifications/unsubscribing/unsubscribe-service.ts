import type { ServiceImpl } from "@connectrpc/connect";
import type { UnsubscribeService } from "../../../proto/gen/berth/notifications/v1/unsubscribing_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/errors.ts";
import { kindKeys } from "../catalog/kinds.ts";
import { type Preference, toPreference } from "../catalog/preference.ts";
import type { ChangePreference } from "../digests/change-preference.ts";
import { listChoices } from "../feed/sql.ts";
import type { Subscription, UnsubscribeLinks } from "../mail/unsubscribe-links.ts";

type Deps = { pool: Pool; links: UnsubscribeLinks; changePreference: ChangePreference };

/** Ends mails by their link, without signing in (docs/notifications.md#unsubscribing). */
export function unsubscribeService(deps: Deps): ServiceImpl<typeof UnsubscribeService> {
  const { pool, links, changePreference } = deps;

  function read(token: string): Subscription {
    const found = links.read(token);
    if (!found) throw refuse(404, "not_found", "There is no such link. It may have been cut short.");
    return found;
  }

  /** Returns the preferences whose mails a link ends. */
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
