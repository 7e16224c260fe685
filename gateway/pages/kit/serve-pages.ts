import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { html } from "../../../services/kit/html.ts";
import type { Logger } from "../../../services/kit/log.ts";
import { internal } from "../../http/problem.ts";
import type { Idempotency } from "../../limits/idempotency.ts";
import { ApiRefusal, createApi } from "./api.ts";
import { createFormMarks } from "./form-mark.ts";
import { toDocument } from "./layout.ts";
import { type Opened, openVisit } from "./open-visit.ts";
import { returnPath, signInAt } from "./return-path.ts";
import { createAnswerOnce, type SentPage } from "./sent-form.ts";
import type { Answer, PageRoute } from "./visit.ts";

const MAX_FORM = 16 * 1024;

/** Besides them a page is never stored, and never taken for another type. */
export const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};
const NEVER_STORED = { "x-content-type-options": "nosniff", "cache-control": "no-store" };

export type PagesDeps = {
  prefix: string;
  keys: Buffer[];
  origin: () => string;
  /** Where those go on who come from nowhere. */
  home: string;
  console: string | undefined;
  idempotency: Idempotency;
  log: Logger;
};

/** Registers pages. They are a client of the API, with the session of the browser's cookie (docs/oauth.md#pages). */
export function servePages(app: FastifyInstance, routes: PageRoute[], deps: PagesDeps): void {
  const api = createApi(app, deps.prefix);
  const marks = createFormMarks(deps.keys);
  const answerOnce = createAnswerOnce(deps.idempotency);

  async function answer(route: PageRoute, opened: Opened, url: string): Promise<SentPage> {
    const { visit, isOwnForm } = opened;
    const path = url.split("?")[0]!;
    const sent = (given: Answer) => toSentPage(given, path, opened);
    const back = () => (route.formOn ? route.formOn(visit.fields) : returnPath(url, deps.home));
    const refused = (error: unknown): Answer => {
      if (!(error instanceof ApiRefusal)) throw error;
      if (error.status !== 401) return refusalPage(error);
      visit.endSession();
      return { seeOther: signInAt(back()) };
    };
    const work = async () => sent(await route.handle(visit).catch(refused));
    if (route.needsSession && !visit.signedIn) return sent({ seeOther: signInAt(back()) });
    if (route.method === "GET" || route.fromAnywhere) return work();
    if (!isOwnForm(route.needsSession)) return sent(outdatedForm(back()));
    return answerOnce(path, visit.fields, work).catch((error: unknown) => sent(refused(error)));
  }

  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const asBuffer = { parseAs: "buffer", bodyLimit: MAX_FORM } as const;
    scope.addContentTypeParser("application/x-www-form-urlencoded", asBuffer, (_request, body, done) =>
      done(null, body),
    );
    // What mail programs send to end mails (RFC 8058). None of our forms does, so its fields are not read.
    scope.addContentTypeParser(/^multipart\/form-data/, asBuffer, (_request, _body, done) =>
      done(null, Buffer.alloc(0)),
    );
    scope.setErrorHandler((error: { statusCode?: number }, request, reply) => {
      const status = error.statusCode ?? 500;
      if (status >= 500) deps.log.error({ err: error, requestId: request.id }, "a page failed");
      const sentence =
        status >= 500 ? internal(request.id).message : "The form could not be read. Go back and try again.";
      const page = { title: "Something went wrong", content: html`<p>${sentence}</p>` };
      const text = toDocument(page, "").text;
      void send(request, reply, { status, text, cookies: [] });
    });
    for (const route of routes)
      scope.route({
        method: route.method,
        url: route.path,
        handler: async (request, reply) => {
          const opened = openVisit(request, {
            ...{ api, marks, origin: deps.origin(), prefix: deps.prefix },
            ...{ home: deps.home, console: deps.console },
          });
          return send(request, reply, await answer(route, opened, request.raw.url!));
        },
      });
  });
}

function toSentPage(answer: Answer, path: string, { visit, cookies }: Opened): SentPage {
  if ("seeOther" in answer) return { status: 303, text: "", cookies, location: answer.seeOther };
  const { page, status = 200, retryAfter } = answer;
  // Making the page may need one more cookie.
  const { text } = toDocument(page, path, visit);
  return { status, text, cookies, retryAfter };
}

function send(request: FastifyRequest, reply: FastifyReply, page: SentPage): FastifyReply {
  const { status, text, cookies, location, retryAfter } = page;
  void reply.headers({ ...PAGE_HEADERS, ...NEVER_STORED, "x-request-id": request.id });
  if (cookies.length > 0) void reply.header("set-cookie", cookies);
  if (location !== undefined) void reply.header("location", location);
  if (retryAfter !== undefined) void reply.header("retry-after", retryAfter);
  return reply.code(status).send(text);
}

function outdatedForm(back: string): Answer {
  const content = html`<p>The form was opened before you signed in or out, or did not come from this site. Nothing was changed.</p>
<p><a class="button" href="${back}">Open the page again</a></p>`;
  return { page: { title: "This form is out of date", content }, status: 403 };
}

function refusalPage({ status, message, retryAfter }: ApiRefusal): Answer {
  const content = html`<p>${message}</p>`;
  return { page: { title: "This did not work", content }, status, retryAfter };
}
