import { createMacs } from "../../kit/mac.ts";
import { isKind, type KindKey } from "../catalog/kinds.ts";
import { type Digest, isDigest } from "../digests/windows.ts";

/** What a link ends for a user: the mails of a kind, or those of all kinds that a digest brings. */
export type Subscription = { userId: string; of: KindKey | Digest };

export type UnsubscribeLinks = ReturnType<typeof createUnsubscribeLinks>;

/**
 * Links that end mails without signing in. Their token says whose and which, and has a MAC: they work for ever, also
 * after a new key came in front (docs/notifications.md#unsubscribing).
 */
export function createUnsubscribeLinks(keys: Buffer[], origin: string) {
  const { macOf, isMac } = createMacs(keys, "berth unsubscribing");
  return {
    make({ userId, of }: Subscription): string {
      const text = `${userId} ${of}`;
      return `${origin}/u/${Buffer.from(text).toString("base64url")}.${macOf(text)}`;
    },
    /** Returns what a token ends; undefined for one that was not made here, or of a kind that is no more. */
    read(token: string): Subscription | undefined {
      const [encoded = "", mac = ""] = token.split(".");
      const text = Buffer.from(encoded, "base64url").toString();
      const [userId = "", of = ""] = text.split(" ");
      return isMac(mac, text) && (isKind(of) || isDigest(of)) ? { userId, of } : undefined;
    },
  };
}

/** The headers of a mail that one click ends (RFC 8058). */
export function unsubscribeHeaders(url: string): Record<string, string> {
  return { "List-Unsubscribe": `<${url}>`, "List-Unsubscribe-Post": "List-Unsubscribe=One-Click" };
}
