import type { IncomingHttpHeaders } from "node:http";
import { parseToken } from "../../services/kit/crypto/bearer-token.ts";

/**
 * Over https the names of cookies bind them to this host, and to connections that are encrypted: no other site of the
 * same domain, such as an app that Berth runs, can set them.
 */
export function cookiePrefix(origin: string): string {
  return origin.startsWith("https:") ? "__Host-" : "";
}

/** Returns the value of a cookie. */
export function readCookie(headers: IncomingHttpHeaders, name: string): string | undefined {
  const pair = headers.cookie?.split("; ").find((cookie) => cookie.startsWith(`${name}=`));
  return pair?.slice(name.length + 1);
}

export const sessionCookieName = (origin: string): string => `${cookiePrefix(origin)}berth_session`;

/** Returns the token of a browser's session, if its cookie has the shape of one. */
export function sessionOf(headers: IncomingHttpHeaders, origin: string): string | undefined {
  const token = readCookie(headers, sessionCookieName(origin));
  return token !== undefined && parseToken(token) === "ses" ? token : undefined;
}

/**
 * Returns the token of the session for which the console made a request (docs/console.md#session). A browser says that the
 * request comes from this very origin, which no script can claim, and the console adds a header, which no form, link or
 * image can: what another site sends with the cookie never counts, and neither does a navigation.
 */
export function consoleSession(headers: IncomingHttpHeaders, origin: string): string | undefined {
  if (headers["sec-fetch-site"] !== "same-origin" || headers["berth-console"] !== "1") return undefined;
  return sessionOf(headers, origin);
}
