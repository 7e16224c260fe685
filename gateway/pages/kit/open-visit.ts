import type { FastifyRequest } from "fastify";
import { html } from "../../../services/kit/html.ts";
import { clientAddress } from "../../http/client-address.ts";
import type { Api } from "./api.ts";
import { cookiesOf } from "./cookies.ts";
import { FORM_ID, type FormMarks, isFromElsewhere, MARK } from "./form-mark.ts";
import type { Visit } from "./visit.ts";

export type Opened = {
  visit: Visit;
  /** Whether the form that was sent is one of ours, shown to this browser; if it needs a session, in this one. */
  isOwnForm: (needsSession: boolean) => boolean;
  /** The cookies to set, as far as the page has been made. */
  cookies: string[];
};

/** Returns a request as what a page needs of it. */
export function openVisit(
  request: FastifyRequest,
  deps: { api: Api; marks: FormMarks; origin: string; prefix: string } & Pick<Visit, "home" | "console">,
): Opened {
  const { api, marks, origin, prefix, home, console } = deps;
  const { headers } = request;
  const jar = cookiesOf(origin);
  const cookies: string[] = [];
  let token = jar.session(headers);
  let secret = jar.secret(headers);
  const fields = new URLSearchParams((request.body as Buffer | undefined)?.toString() ?? "");
  const as = (bearer: string | undefined) => ({
    token: bearer,
    ip: clientAddress(request),
    requestId: request.id,
  });
  const visit: Visit = {
    params: request.params as Record<string, string>,
    query: new URL(request.raw.url!, "http://berth.invalid").searchParams,
    fields,
    apiUrl: origin + prefix,
    home,
    console,
    get signedIn() {
      return token !== undefined;
    },
    mark() {
      if (token === undefined && secret === undefined) {
        secret = jar.newSecret();
        cookies.push(jar.keepSecret(secret));
      }
      return html`<input type="hidden" name="${MARK}" value="${marks.markOf(token ?? secret!)}"><input type="hidden" name="${FORM_ID}" value="${jar.newSecret()}">`;
    },
    call: (method, path, body, options) => api(as(token), method, path, body, options),
    async startSession(session) {
      const before = token;
      token = session.token;
      cookies.push(jar.keepSession(token, session.expiresAt));
      // Another user's, as a rule; one that has ended already is refused.
      if (before !== undefined) await api(as(before), "DELETE", "/sessions").catch(() => {});
    },
    endSession() {
      token = undefined;
      cookies.push(jar.forgetSession());
    },
    lastLogin: jar.login(headers),
    keepLogin: (email) => void cookies.push(jar.keepLogin(email)),
  };
  const isOwnForm = (needsSession: boolean) => {
    const secrets = needsSession ? [token] : [token, secret];
    const mark = fields.get(MARK) ?? "";
    return (
      !isFromElsewhere(headers, origin) && secrets.some((one) => one !== undefined && marks.isMark(mark, one))
    );
  };
  return { visit, isOwnForm, cookies };
}
