import { catalogue, isKind, type Kind, type KindKey } from "../kinds/kinds.ts";

/** Kinds of events that webhooks get besides those of notifications to the members of an account. */
const MORE = [
  "deploy.queued",
  "service.created",
  "service.renamed",
  "service.deleted",
  "run.ended",
  "member.role_changed",
] as const;

/** Sent by a request only, whatever the kinds of a webhook are. */
export const TEST_KIND = "webhook.test";

export type WebhookKind = KindKey | (typeof MORE)[number] | typeof TEST_KIND;

/** Whether webhooks get a kind of notification: those to members of an account, and not those to one user. */
export function isOfAccount(kind: KindKey): boolean {
  const { audience, category }: Kind = catalogue[kind];
  return audience !== "user" && category !== "social";
}

const names = new Set<string>([...(Object.keys(catalogue) as KindKey[]).filter(isOfAccount), ...MORE]);
const patterns = new Set<string>(["*", ...[...names].map(patternOf)]);

/** Whether a webhook can ask for this: a kind, `deploy.*` for all kinds that begin so, or `*`. */
export function isSelector(text: string): boolean {
  return names.has(text) || patterns.has(text);
}

/** Returns what a webhook may have asked for that gets a kind. */
export function selectorsOf(kind: string): string[] {
  return ["*", patternOf(kind), kind];
}

function patternOf(kind: string): string {
  return `${kind.split(".", 1)[0]}.*`;
}

/** Whether this is a kind of notification that webhooks get. */
export function isPublished(kind: string): kind is KindKey {
  return isKind(kind) && isOfAccount(kind);
}
