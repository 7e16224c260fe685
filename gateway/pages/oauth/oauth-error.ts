import { html } from "../../../services/kit/html.ts";
import type { PageRoute } from "../kit/visit.ts";

const SENTENCES: Record<string, string> = {
  access_denied: "Access was denied.",
  invalid_client: "The application is not registered here. It has to register again.",
  invalid_redirect_uri: "The application asked to send you to an address that it has not registered.",
  invalid_request: "The request of the application is incomplete, invalid, or no longer valid.",
  invalid_scope: "The application asked for a scope that Berth does not know.",
  invalid_target: "The application asked for access to a different server.",
  server_error: "Something went wrong on our side.",
  temporarily_unavailable: "Berth cannot do this right now.",
  unsupported_response_mode: "The application asked for a response mode that Berth does not support.",
  unsupported_response_type: "The application asked for a response type that Berth does not support.",
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
      const content = html`<p>${sentence ?? "The application could not be connected."}</p>
<p>Go back to the application. If it is not connected, start again there. If this happens again, contact the developers of the application.</p>
${sentence !== undefined && html`<details><summary>For the developers of the application</summary><dl><dt>Error</dt><dd><code>${error}</code></dd></dl></details>`}`;
      return { page: { title: "This did not work", content }, status: 400 };
    },
  },
];
