import { randomBytes } from "node:crypto";
import { hashToken } from "../../kit/bearer-token.ts";
import { createMacs } from "../../kit/mac.ts";

/** `inv`: of an invitation. `rst`: sets a new password. */
type LinkKind = "inv" | "rst";

const PATHS: Record<LinkKind, string> = { inv: "/invitation", rst: "/password-reset" };

export type Links = ReturnType<typeof createLinks>;

/**
 * One-time links. Their token is derived from a seed that is stored and a key that is not, so that a mail can be
 * composed when it is sent, and the database alone opens nothing. It is in the fragment of the URL, which
 * browsers send to no server.
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
    /** Returns the link of a seed whose token has this hash, also under a retired key; undefined when none does. */
    find(kind: LinkKind, seed: string, hash: Buffer): string | undefined {
      const token = tokensOf(kind, seed).find((candidate) => hashToken(candidate).equals(hash));
      return token && urlOf(kind, token);
    },
  };
}

export const newNonce = () => randomBytes(16).toString("base64url");
