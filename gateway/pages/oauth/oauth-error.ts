import { html } from "../../../services/kit/html.ts";
import type { PageRoute } from "../kit/visit.ts";

const SENTENCES: Record<string, string> = {
  access_denied: "Access was denied.",
  invalid_client: "The application is not known here. It has to register again.",
  invalid_redirect_uri: "The application did not register the address that it wants you sent to.",
  invalid_request: "The request of the application is incomplete, not valid, or over.",
  invalid_scope: "The application asked for something that Berth does not have.",
  invalid_target: "The application asked for access to something that is not this Berth.",
  server_error: "Something went wrong on our side.",
  temporarily_unavailable: "Berth cannot do this right now.",
  unsupported_response_mode: "The application asks for an answer in a form that Berth does not support.",
  unsupported_response_type: "The application asks in a way that Berth does not support.",
};

/** The provider's errors that an application cannot be told. Anybody can make a link to this page: it repeats nothing. */
export const oauthErrorPages: PageRoute[] = [
  {
    method: "GET",
    path: "/oauth/error",
    needsSession: false,
    async handle({ query }) {
      const error = query.get("error") ?? "";
      const sentence = Object.hasOwn(SENTENCES, error) ? SENTENCES[error] : undefined;
      const content = html`<p>${sentence ?? "The application cannot be connected like this."}</p>
<p>Go back to the application. If it is not connected, begin again there; if this happens again, tell those who make it.</p>
${sentence !== undefined && html`<details><summary>For those who make it</summary><dl><dt>Error</dt><dd><code>${error}</code></dd></dl></details>`}`;
      return { page: { title: "This did not work", content }, status: 400 };
    },
  },
];
