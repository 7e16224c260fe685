import { createMacs } from "../../kit/crypto/mac.ts";
import { type Digest, isDigest } from "../digests/windows.ts";
import { isKind, type KindKey } from "../kinds/kinds.ts";

/** What a link unsubscribes a user from: the mails of one kind, or of all kinds in a digest. */
export type Subscription = { userId: string; of: KindKey | Digest };

export type UnsubscribeLinks = ReturnType<typeof createUnsubscribeLinks>;

/**
 * Links that unsubscribe without signing in. Their token names user and mails, and has a MAC: they never expire, even
 * when keys are rotated (docs/notifications.md#unsubscribing).
 */
export function createUnsubscribeLinks(keys: Buffer[], origin: string) {
  const { macOf, isMac } = createMacs(keys, "berth unsubscribing");
  return {
    make({ userId, of }: Subscription): string {
      const text = `${userId} ${of}`;
      return `${origin}/u/${Buffer.from(text).toString("base64url")}.${macOf(text)}`;
    },
    /** Returns the subscription of a token; undefined for a forged one, or one of a kind that no longer exists. */
    read(token: string): Subscription | undefined {
      const [encoded = "", mac = ""] = token.split(".");
      const text = Buffer.from(encoded, "base64url").toString();
      const [userId = "", of = ""] = text.split(" ");
      return isMac(mac, text) && (isKind(of) || isDigest(of)) ? { userId, of } : undefined;
    },
  };
}

/** The headers for one-click unsubscription (RFC 8058). */
export function unsubscribeHeaders(url: string): Record<string, string> {
  return { "List-Unsubscribe": `<${url}>`, "List-Unsubscribe-Post": "List-Unsubscribe=One-Click" };
}
