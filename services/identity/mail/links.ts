import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { hashToken } from "../../kit/bearer-token.ts";

/** `inv`: of an invitation. `rst`: sets a new password. */
export type LinkKind = "inv" | "rst";

const PATHS: Record<LinkKind, string> = { inv: "/invitation", rst: "/password-reset" };

export type Links = ReturnType<typeof createLinks>;

/**
 * One-time links. Their token is made of a seed that is stored and a key that is not, so that a mail can be
 * composed when it is sent, and the database alone opens nothing. It stands behind the #, which browsers send
 * to nobody.
 */
export function createLinks(keys: Buffer[], origin: string) {
  const secrets = keys.map((key) => Buffer.from(hkdfSync("sha256", key, "", "berth links", 32)));
  const tokenOf = (secret: Buffer, kind: LinkKind, seed: string) =>
    `berth_${kind}_${createHmac("sha256", secret).update(`${kind}\n${seed}`).digest("base64url")}`;
  const urlOf = (kind: LinkKind, token: string) => `${origin}${PATHS[kind]}#${token}`;
  return {
    origin,
    /** A link of this seed, and the hash by which its token is known. */
    make(kind: LinkKind, seed: string) {
      const token = tokenOf(secrets[0]!, kind, seed);
      return { url: urlOf(kind, token), hash: hashToken(token) };
    },
    /** The link that was made of this seed, also under a key that signs no more; undefined when none fits. */
    find(kind: LinkKind, seed: string, hash: Buffer): string | undefined {
      const tokens = secrets.map((secret) => tokenOf(secret, kind, seed));
      const token = tokens.find((candidate) => hashToken(candidate).equals(hash));
      return token && urlOf(kind, token);
    },
  };
}

export const newNonce = () => randomBytes(16).toString("base64url");
