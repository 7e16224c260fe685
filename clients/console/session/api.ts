import { Berth, isRefusal } from "../../typescript/src/index.ts";
import { learnTime } from "./clock.ts";

/** The path before all endpoints of this installation's API, as the gateway wrote it into the page. */
const prefix = document.querySelector<HTMLMetaElement>('meta[name="berth-api"]')?.content ?? "/v1";
const base = location.origin;

/**
 * The API, for the user whose session this browser has. The browser sends the session's cookie, which no script can read;
 * the header says that this is the console, so that no other site can use the cookie (docs/console.md#session).
 */
export const berth = new Berth({
  baseUrl: base,
  fetch: (url, init) =>
    fetch(String(url).replace(`${base}/v1`, base + prefix), {
      ...init,
      headers: { ...(init?.headers as Record<string, string>), "berth-console": "1" },
    }).then((response) => {
      learnTime(response);
      return response;
    }),
});

/** Goes to where one signs in, and comes back to this screen. */
export function toSignIn(): void {
  location.assign(`/signin?${new URLSearchParams({ return_to: location.pathname + location.search })}`);
}

/**
 * Goes to where one signs in if an error says that there is no session any more. Returns whether it does: while a dialog has a
 * form it stays, for what was typed there would be lost.
 */
export function leaveWithoutSession(error: unknown): boolean {
  const leaves = isRefusal(error, "unauthenticated") && !document.querySelector("dialog[open] form");
  if (leaves) toSignIn();
  return leaves;
}
