import { type Channel, catalogue, type Frequency, type Kind, type KindKey } from "../kinds/kinds.ts";

/** What a user chose for a kind. */
export type Choice = { channel: Channel; frequency: Frequency };

/** How a user receives a kind, as lists show it and delivery follows it. */
export type Preference = Choice & {
  kind: KindKey;
  label: string;
  category: Kind["category"];
  forceEmail: boolean;
  overridden: boolean;
};

/** Returns how a user receives a kind: as the user chose, or else as the catalogue says. */
export function toPreference(kind: KindKey, choice: Choice | undefined): Preference {
  const { label, category, channel, frequency, forced }: Kind = catalogue[kind];
  const own = choice ?? { channel, frequency };
  return { kind, label, category, ...own, forceEmail: forced, overridden: choice !== undefined };
}

export type Route = {
  /** A hidden row is only the source of a mail, and not in the feed. */
  row: "visible" | "hidden" | "none";
  mail: "now" | "daily" | "weekly" | "none";
};

/** Returns how a notification is delivered (docs/notifications.md#delivery). The frequency delays only mails. */
export function toRoute({ channel, frequency, forceEmail }: Choice & { forceEmail: boolean }): Route {
  const chosen = channel === "email" || channel === "both";
  const mail = forceEmail ? "now" : !chosen ? "none" : frequency === "immediate" ? "now" : frequency;
  const visible = channel === "in_app" || channel === "both";
  return { row: visible ? "visible" : mail === "none" ? "none" : "hidden", mail };
}
