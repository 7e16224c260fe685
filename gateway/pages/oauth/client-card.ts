import { type Html, html } from "../../../services/kit/html.ts";
import { minute } from "../kit/layout.ts";

/** A client as the API shows it: every text is its own. */
export type Client = {
  clientId: string;
  clientName: string;
  clientUri: string;
  redirectHost: string;
  /** The host of the document that describes it; absent when it registered. */
  documentHost?: string;
  /** Whether it is one of Berth itself, or claims to be. */
  firstParty?: boolean;
};

/** What is known of a device that shows a code. */
export type Device = { userCode: string; ip: string; sameNetwork: boolean; requestedAt: string };

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

/**
 * Returns what is known of a client, and that nobody vouches for it. Nothing of it is loaded or linked. A client on a
 * `device` sends the browser nowhere.
 */
export function clientCard(
  client: Client,
  { scopes, otherApis }: Asked = { scopes: [], otherApis: [] },
  device?: Device,
): Html {
  const { clientId, clientName, clientUri, redirectHost, documentHost } = client;
  return html`<section class="client" aria-labelledby="client">
<h2 id="client">${nameOf(clientName)}</h2>
<p class="warning">${origin(client)}</p>
<dl>
${device ? askedBy(device) : html`<dt>Sends you to</dt><dd>${destination(redirectHost)}</dd>`}
${documentHost !== undefined && html`<dt>Described at</dt><dd><bdi>${clip(clientId)}</bdi></dd>`}
${isWebsite(clientUri) && html`<dt>Says it is from</dt><dd><bdi>${clip(clientUri)}</bdi></dd>`}
${otherApis.length > 0 && html`<dt>Used with</dt><dd>${otherApis.map((url) => html`<bdi>${clip(url)}</bdi>`)}</dd>`}
${scopes.length > 0 && html`<dt>Asks for</dt><dd>${clip(scopes.join(", "))}<small>For your information only: the role below decides what it can do.</small></dd>`}
</dl>
${device ? deviceNote : LOCAL.test(redirectHost) && localNote}
</section>`;
}

function origin({ firstParty, documentHost }: Client): Html {
  if (firstParty === true) return ownClient;
  return documentHost === undefined ? selfRegistered : describedBy(documentHost);
}

const ownClient = html`<strong>Berth’s own command line.</strong> Any program can claim to be it. Continue only if you have just started it yourself.`;

const selfRegistered = html`<strong>Self-registered, unverified.</strong> The application chose this name itself. Nobody has verified who is behind it.`;

function describedBy(documentHost: string): Html {
  return html`<strong>Described by ${documentHost}, unverified.</strong> Its name and all other information about it come from there. Nobody has verified who is behind it.`;
}

const localNote = html`<p class="note">This application runs on your own computer. Any program on it could send this request: continue only if you have just started the application yourself.</p>`;

function askedBy({ userCode, ip, sameNetwork, requestedAt }: Device): Html {
  return html`<dt>Shows the code</dt><dd><strong class="user-code">${userCode}</strong><small>Compare it with the code on your device.</small></dd>
<dt>Asks from</dt><dd><strong>${ip}</strong> ${sameNetwork ? "(your own network)" : html`<strong class="error">(not the network that you are in now)</strong>`}</dd>
<dt>Asked at</dt><dd>${minute(requestedAt)}</dd>`;
}

const deviceNote = html`<p class="note">Did somebody send you this code, or the link to this page? Then deny: whoever sent it would get the access.</p>`;

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
