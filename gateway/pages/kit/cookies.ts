import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { cookiePrefix, readCookie, sessionCookieName, sessionOf } from "../../auth/session-cookie.ts";

/** As long as a request of an application is open. */
const LOGIN_SECONDS = 600;

const SECRET = /^[A-Za-z0-9_-]{22}$/;

/** Whether a cookie is one of the pages': they concern nobody else. */
export function isPageCookie(cookie: string): boolean {
  return /^(?:__Host-)?berth_(?:session|form|login)=/.test(cookie);
}

/**
 * The cookies of the pages: the session's token, before there is one a random secret, and the e-mail of who signed in
 * to an application last. To the API only the session's means something, and only in requests of the console
 * (auth/session-cookie.ts).
 */
export function cookiesOf(origin: string) {
  const secure = origin.startsWith("https:");
  const prefix = cookiePrefix(origin);
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
  const session = sessionCookieName(origin);
  const form = `${prefix}berth_form`;
  const login = `${prefix}berth_login`;
  return {
    /** Returns the token of the session's cookie, if it has the shape of one. */
    session: (headers: IncomingHttpHeaders) => sessionOf(headers, origin),
    secret(headers: IncomingHttpHeaders): string | undefined {
      const secret = readCookie(headers, form);
      return secret !== undefined && SECRET.test(secret) ? secret : undefined;
    },
    newSecret: () => randomBytes(16).toString("base64url"),
    keepSession(token: string, expiresAt: string): string {
      const seconds = Math.max(0, Math.floor((Date.parse(expiresAt) - Date.now()) / 1000));
      return `${session}=${token}; ${attributes}; Max-Age=${seconds}`;
    },
    keepSecret: (secret: string) => `${form}=${secret}; ${attributes}`,
    login(headers: IncomingHttpHeaders): string | undefined {
      const email = readCookie(headers, login);
      return email && Buffer.from(email, "base64url").toString();
    },
    keepLogin: (email: string) =>
      `${login}=${Buffer.from(email).toString("base64url")}; ${attributes}; Max-Age=${LOGIN_SECONDS}`,
    forgetSession: () => `${session}=; ${attributes}; Max-Age=0`,
  };
}
