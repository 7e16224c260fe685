import type { WebhookKind } from "./kinds.ts";

/** What happened in an account, as webhooks are told. */
export type WebhookMessage = {
  kind: WebhookKind;
  accountId: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  /** Identifies what happened within its kind: a webhook gets it once. */
  dedupe: string;
};

/** Returns the bodies of a message by the format of a webhook. Pure. */
export function bodiesOf(message: Omit<WebhookMessage, "dedupe">, at: Date) {
  const { kind, accountId, title, body, metadata } = message;
  const data = { accountId, title, body, metadata };
  return {
    standard: JSON.stringify({ type: kind, timestamp: at.toISOString(), data }),
    slack: JSON.stringify({ text: `*${escaped(title)}*\n${escaped(body)}` }),
  };
}

/** Escapes what Slack reads as a link or a mention. */
function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
