import type { Html } from "../../../services/kit/html.ts";
import type { ApiRefusal } from "./api.ts";
import type { Page } from "./layout.ts";

/** What a page answers: a page, or where the browser goes on. */
export type Answer = { page: Page; status?: number; retryAfter?: number | undefined } | { seeOther: string };

/** One request for a page, by a browser that may be signed in. */
export type Visit = {
  /** What the path holds where the route has names, such as `:token`. */
  params: Record<string, string>;
  query: URLSearchParams;
  /** The fields of the form that was sent. */
  fields: URLSearchParams;
  signedIn: boolean;
  /** The base URL of this origin's API. */
  apiUrl: string;
  /** Where those go on who come from nowhere. */
  home: string;
  /** The path of the console, whose screens have the paths of the API; undefined without one. */
  console: string | undefined;
  /** Returns the hidden fields that every form needs. */
  mark: () => Html;
  /** Calls the API as the browser's user, or as nobody. Rejects with an `ApiRefusal`. */
  call: <T>(
    method: "GET" | "PATCH" | "POST" | "PUT" | "DELETE",
    path: string,
    body?: object,
    options?: { once?: string },
  ) => Promise<T>;
  /** Makes this browser's user the one of a new session, and ends the session it had. */
  startSession: (session: { token: string; expiresAt: string }) => Promise<void>;
  endSession: () => void;
  /** The e-mail of who signed in to an application last, in this browser. */
  lastLogin: string | undefined;
  keepLogin: (email: string) => void;
};

export type PageRoute = {
  method: "GET" | "POST";
  path: string;
  /** Who is not signed in signs in first, and comes back. */
  needsSession: boolean;
  /** Of a POST: the page on which its form is. */
  formOn?: (fields: URLSearchParams) => string;
  /** Of a POST: whether it may come from elsewhere than our forms. For what needs no browser's session. */
  fromAnywhere?: true;
  handle: (visit: Visit) => Promise<Answer>;
};

/** Returns a page that shows a refusal, with the status of the API. */
export function withRefusal(page: Page, { status, retryAfter }: ApiRefusal): Answer {
  // A 401 would have to say how to authenticate, and there is no header for a form.
  return { page, status: status === 401 ? 422 : status, retryAfter };
}
