import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/** The names of the hidden fields that every form has. */
export const MARK = "form_mark";
/** Tells a form from all others, so that one that is sent twice is known. */
export const FORM_ID = "form_id";

export type FormMarks = ReturnType<typeof createFormMarks>;

/**
 * Marks of forms: MACs of a secret of the browser, so that no other site can send a form in its name. The secret is the
 * session's token, or a random cookie before there is a session: signing in is protected as well.
 */
export function createFormMarks(keys: Buffer[]) {
  const secrets = keys.map((key) => Buffer.from(hkdfSync("sha256", key, "", "berth page forms", 32)));
  const mac = (secret: Buffer, of: string) => createHmac("sha256", secret).update(of).digest("base64url");
  return {
    markOf: (browserSecret: string) => mac(secrets[0]!, browserSecret),
    isMark(given: string, browserSecret: string): boolean {
      const bytes = Buffer.from(given);
      return secrets.some((secret) => {
        const mark = Buffer.from(mac(secret, browserSecret));
        return bytes.length === mark.length && timingSafeEqual(bytes, mark);
      });
    },
  };
}

/**
 * Whether a browser says that a form was sent from another origin. It is silent where a browser sends neither header,
 * and `Origin` is `null` on pages that have no referrer.
 */
export function isFromElsewhere(headers: IncomingHttpHeaders, origin: string): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site !== "same-origin";
  return headers.origin !== undefined && headers.origin !== "null" && headers.origin !== origin;
}
