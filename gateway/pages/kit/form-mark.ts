import type { IncomingHttpHeaders } from "node:http";
import { createMacs } from "../../../services/kit/crypto/mac.ts";

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
  const { macOf, isMac } = createMacs(keys, "berth page forms");
  return { markOf: macOf, isMark: isMac };
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
