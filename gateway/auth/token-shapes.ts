import { parseToken } from "../../services/kit/crypto/bearer-token.ts";

/** Headers may be larger, but no provider issues such tokens. */
const MAX_MACHINE_TOKEN = 4096;
const JWT = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+$/;
/** An opaque access token of Ory Hydra. */
const OPAQUE = /^ory_at_[A-Za-z0-9_.-]+$/;
/** Those whose key is public: never `none`, nor the HS family, which would take a public key for a secret. */
const SIGNED = /^(?:ES|RS|PS)(?:256|384|512)$|^EdDSA$/;

/** Whether a text has the shape of an access token that an OAuth client got. */
export function isMachineToken(text: string): boolean {
  return text.length <= MAX_MACHINE_TOKEN && (JWT.test(text) || OPAQUE.test(text));
}

/** What is wrong with a token by its looks: it is none of this installation's, or says that it has expired. */
export type TokenFault = "foreign" | "expired";

/**
 * Returns a function that says what is wrong with a token that identity cannot know; undefined for one that it has to be
 * asked about. `issuer` returns who signs all access tokens when that is the embedded provider, else undefined.
 *
 * What a JWT says of itself is read before its signature is checked, and only to refuse it: no key is needed to see
 * that a token is expired or from elsewhere, and anybody can send as many of those as they like.
 */
export function tokenFaults(options: { issuer: () => string | undefined; now?: () => number }) {
  const { issuer, now = Date.now } = options;

  function faultOfJwt(header: Claims, claims: Claims): TokenFault | undefined {
    if (typeof header.alg !== "string" || !SIGNED.test(header.alg)) return "foreign";
    if (typeof claims.exp !== "number") return "foreign";
    const embedded = issuer();
    const own = header.alg === "ES256" && header.typ === "at+jwt" && claims.iss === embedded;
    if (embedded !== undefined && !own) return "foreign";
    return claims.exp * 1000 <= now() ? "expired" : undefined;
  }

  return (text: string): TokenFault | undefined => {
    if (parseToken(text) !== undefined) return undefined;
    if (!isMachineToken(text)) return "foreign";
    const [, header, claims] = JWT.exec(text) ?? [];
    if (!header || !claims) return issuer() === undefined ? undefined : "foreign";
    return faultOfJwt(readPart(header), readPart(claims));
  };
}

type Claims = Record<string, unknown>;

/** Returns what one part of a JWT says; nothing, when it says nothing that can be read. */
function readPart(part: string): Claims {
  try {
    return (JSON.parse(Buffer.from(part, "base64url").toString()) ?? {}) as Claims;
  } catch {
    return {};
  }
}
