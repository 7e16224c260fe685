import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { hashToken } from "../../kit/bearer-token.ts";

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
  const secrets = keys.map((key) => Buffer.from(hkdfSync("sha256", key, "", "berth links", 32)));
  const tokenOf = (secret: Buffer, kind: LinkKind, seed: string) =>
    `berth_${kind}_${createHmac("sha256", secret).update(`${kind}\n${seed}`).digest("base64url")}`;
  const urlOf = (kind: LinkKind, token: string) => `${origin}${PATHS[kind]}#${token}`;
  return {
    origin,
    /** Returns the link of a seed, and the hash of its token. */
    make(kind: LinkKind, seed: string) {
      const token = tokenOf(secrets[0]!, kind, seed);
      return { url: urlOf(kind, token), hash: hashToken(token) };
    },
    /** Returns the link of a seed whose token has this hash, also under a retired key; undefined when none does. */
    find(kind: LinkKind, seed: string, hash: Buffer): string | undefined {
      const tokens = secrets.map((secret) => tokenOf(secret, kind, seed));
      const token = tokens.find((candidate) => hashToken(candidate).equals(hash));
      return token && urlOf(kind, token);
    },
  };
}

export const newNonce = () => randomBytes(16).toString("base64url");
