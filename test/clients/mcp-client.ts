import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  auth,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from "@modelcontextprotocol/client";

// The smallest MCP client: it gets access to Berth's API as any other does, and says to what. It keeps nothing.

const serverUrl = process.argv[2];
if (!serverUrl || !URL.canParse(serverUrl)) {
  process.stderr.write("Give the URL of the API: npm run -s connect -- http://127.0.0.1:4000/v1\n");
  process.exit(2);
}

const server = createServer().listen(0, "127.0.0.1");
await once(server, "listening");
const redirectUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;

let information: StoredOAuthClientInformation | undefined;
let tokens: StoredOAuthTokens | undefined;
let discovered: OAuthDiscoveryState | undefined;
let verifier = "";
const state = crypto.randomUUID();

const provider: OAuthClientProvider = {
  redirectUrl,
  clientMetadata: { client_name: "The smallest MCP client", redirect_uris: [redirectUrl] },
  state: () => state,
  clientInformation: () => information,
  saveClientInformation: (given) => {
    information = given;
  },
  tokens: () => tokens,
  saveTokens: (given) => {
    tokens = given;
  },
  codeVerifier: () => verifier,
  saveCodeVerifier: (given) => {
    verifier = given;
  },
  discoveryState: () => discovered,
  saveDiscoveryState: (given) => {
    discovered = given;
  },
  redirectToAuthorization: (url) => void process.stdout.write(`Open in a browser: ${url}\n`),
};

/** Resolves to what the browser comes back with. */
async function callback(): Promise<URLSearchParams> {
  for (;;) {
    const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const { pathname, searchParams } = new URL(request.url!, redirectUrl);
    const ours = pathname === "/callback" && searchParams.get("state") === state;
    response.writeHead(ours ? 200 : 404, { "content-type": "text/plain", connection: "close" });
    response.end(ours ? "You can close this window.\n" : "Nothing is here.\n");
    if (ours) return searchParams;
  }
}

const answer = callback();
await auth(provider, { serverUrl });
const { code, iss, error } = Object.fromEntries(await answer);
server.close();
if (!code) {
  process.stderr.write(`No access: ${error}\n`);
  process.exit(1);
}
await auth(provider, { serverUrl, authorizationCode: code, iss });
const headers = { authorization: `Bearer ${tokens!.access_token}` };
const answered = await fetch(`${serverUrl}/accounts`, { headers });
const { data } = (await answered.json()) as { data: { handle: string; myRole: string }[] };
for (const { handle, myRole } of data) process.stdout.write(`Access as ${myRole} to the account ${handle}\n`);
