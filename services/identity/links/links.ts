import { randomBytes } from "node:crypto";
import { hashToken } from "../../kit/crypto/bearer-token.ts";
import { createMacs } from "../../kit/crypto/mac.ts";

/** `inv`: accepts an invitation. `rst`: resets a password. */
type LinkKind = "inv" | "rst";

const PATHS: Record<LinkKind, string> = { inv: "/invitation", rst: "/password-reset" };

export type Links = ReturnType<typeof createLinks>;

/**
 * One-time links. A link's token is derived from a stored seed and a key that is not in the database, so that a mail can
 * be composed when it is sent, and a copy of the database is of no use. It is in the fragment of the URL, which browsers
 * do not send to servers.
 */
export function createLinks(keys: Buffer[], origin: string) {
  const { macsOf } = createMacs(keys, "berth links");
  const tokensOf = (kind: LinkKind, seed: string) =>
    macsOf(`${kind}\n${seed}`).map((mac) => `berth_${kind}_${mac}`);
  const urlOf = (kind: LinkKind, token: string) => `${origin}${PATHS[kind]}#${token}`;
  return {
    origin,
    /** Returns the link of a seed, and the hash of its token. */
    make(kind: LinkKind, seed: string) {
      const token = tokensOf(kind, seed)[0]!;
      return { url: urlOf(kind, token), hash: hashToken(token) };
    },
    /** Returns the link of a seed whose token has this hash, also under an older key; undefined if none has. */
    find(kind: LinkKind, seed: string, hash: Buffer): string | undefined {
      const token = tokensOf(kind, seed).find((candidate) => hashToken(candidate).equals(hash));
      return token && urlOf(kind, token);
    },
  };
}

export const newNonce = () => randomBytes(16).toString("base64url");

/** Returns the seed of an invitation's link. */
export const invitationSeed = (id: string, nonce: string) => `${id}\n${nonce}`;
