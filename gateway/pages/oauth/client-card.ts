import { type Html, html } from "../../../services/kit/html.ts";

/** A client as the API shows it: every text is its own. */
export type Client = {
  clientId: string;
  clientName: string;
  clientUri: string;
  redirectHost: string;
  /** The host of the document that describes it; absent when it registered. */
  documentHost?: string;
};

/** What a client asks for: scopes, and the URLs of APIs other than this origin's. */
export type Asked = { scopes: string[]; otherApis: string[] };

const MAX_NAME = 80;
const MAX_TEXT = 200;
const LOCAL = /^(localhost|[a-z0-9.-]+\.localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

/** Returns a client's name, whichever direction its letters have. */
export function nameOf(clientName: string): Html {
  const letters = [...clientName.trim()];
  const name = letters.length > MAX_NAME ? `${letters.slice(0, MAX_NAME).join("")}…` : letters.join("");
  return html`<bdi>${name || "Unnamed client"}</bdi>`;
}

/** Returns what is known of a client, and that nobody vouches for it. Nothing of it is loaded or linked. */
export function clientCard(
  client: Client,
  { scopes, otherApis }: Asked = { scopes: [], otherApis: [] },
): Html {
  const { clientId, clientName, clientUri, redirectHost, documentHost } = client;
  return html`<section class="client" aria-labelledby="client">
<h2 id="client">${nameOf(clientName)}</h2>
<p class="warning">${documentHost === undefined ? selfRegistered : describedBy(documentHost)}</p>
<dl>
<dt>Sends you to</dt><dd>${destination(redirectHost)}</dd>
${documentHost !== undefined && html`<dt>Described at</dt><dd><bdi>${clip(clientId)}</bdi></dd>`}
${isWebsite(clientUri) && html`<dt>Says it is from</dt><dd><bdi>${clip(clientUri)}</bdi></dd>`}
${otherApis.length > 0 && html`<dt>To be used at</dt><dd>${otherApis.map((url) => html`<bdi>${clip(url)}</bdi>`)}</dd>`}
${scopes.length > 0 && html`<dt>Asks for</dt><dd>${clip(scopes.join(", "))}<small>For information: what it gets is the role below.</small></dd>`}
</dl>
${LOCAL.test(redirectHost) && localNote}
</section>`;
}

const selfRegistered = html`<strong>Self-registered, unverified.</strong> It chose this name itself. Nobody checked who it is.`;

function describedBy(documentHost: string): Html {
  return html`<strong>Described by ${documentHost}, unverified.</strong> Its name and what else it says of itself come from there. Nobody here checked who it is.`;
}

const localNote = html`<p class="note">This application runs on your own computer. Any program there can ask like this: go on only if you have just started it yourself.</p>`;

// An application's own scheme ends with a colon, and leads to whichever program claims it.
function destination(redirectHost: string): Html {
  if (LOCAL.test(redirectHost)) return html`<strong>${redirectHost}</strong> (this computer)`;
  if (redirectHost === "" || redirectHost.endsWith(":"))
    return html`an application on this device${redirectHost && html` (<strong>${redirectHost}</strong>)`}`;
  return html`<strong>${redirectHost}</strong>`;
}

function isWebsite(uri: string): boolean {
  return URL.canParse(uri) && new URL(uri).protocol === "https:";
}

function clip(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
