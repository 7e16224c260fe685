import { parseToken } from "../../services/kit/bearer-token.ts";

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

/**
 * Returns a function that says whether identity may know a token; for every other text it need not be asked. `issuer`
 * returns who signs all access tokens when that is the embedded provider, else undefined.
 *
 * What a JWT says of itself is read before its signature is checked, and only to refuse it: no key is needed to see
 * that a token is expired or from elsewhere, and anybody can send as many of those as they like.
 */
export function tokenShapes(options: { issuer: () => string | undefined; now?: () => number }) {
  const { issuer, now = Date.now } = options;

  function mayBeSigned(header: Claims, claims: Claims): boolean {
    if (typeof header.alg !== "string" || !SIGNED.test(header.alg)) return false;
    if (typeof claims.exp !== "number" || claims.exp * 1000 <= now()) return false;
    const embedded = issuer();
    if (embedded === undefined) return true;
    return header.alg === "ES256" && header.typ === "at+jwt" && claims.iss === embedded;
  }

  return (text: string): boolean => {
    if (parseToken(text) !== undefined) return true;
    if (!isMachineToken(text)) return false;
    const [, header, claims] = JWT.exec(text) ?? [];
    if (!header || !claims) return issuer() === undefined;
    return mayBeSigned(readPart(header), readPart(claims));
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
