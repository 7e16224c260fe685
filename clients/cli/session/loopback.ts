import { randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Failure, refused } from "../failure.ts";
import { isPage } from "./browser.ts";
import {
  credentialOf,
  type OauthCredential,
  type Provider,
  postForm,
  proofKey,
  register,
  SCOPE,
  whyNot,
} from "./oauth.ts";

/** As long as a challenge of the sign-in lives. */
const WAIT_MS = 600_000;

type Ways = { clientId?: string | undefined; signal: AbortSignal; open: (url: string) => void };

/** Signs in by a browser on this machine, which is sent back to a port here (RFC 8252, PKCE). */
export async function signInByLoopback(provider: Provider, ways: Ways): Promise<OauthCredential> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  try {
    const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;
    // The port may differ from the registered one (RFC 8252, section 7.3).
    const clientId = ways.clientId ?? (await register(provider, "http://127.0.0.1/callback", ways.signal));
    const { verifier, challenge } = proofKey();
    const state = randomBytes(16).toString("base64url");
    const query = new URLSearchParams({
      response_type: "code",
      client_id: clientId,
      redirect_uri: redirectUri,
      code_challenge: challenge,
      code_challenge_method: "S256",
      scope: SCOPE,
      state,
      resource: provider.resource,
    });
    const back = callback(server, state, ways.signal);
    const url = new URL(provider.server.authorization_endpoint);
    for (const [name, value] of query) url.searchParams.set(name, value);
    if (!isPage(url.href))
      throw refused(`${url.href} is no page that a browser can show.`, "berth login --device");
    ways.open(url.href);
    const code = codeIn(await back, provider);
    const form = {
      grant_type: "authorization_code",
      client_id: clientId,
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
      resource: provider.resource,
    };
    const { status, body } = await postForm(provider.server.token_endpoint, form, ways.signal);
    if (status !== 200) throw refused(`The sign-in was refused: ${whyNot(body)}`, "berth login");
    return credentialOf(provider, clientId, body as { access_token: string });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Resolves to what the browser brings back with our `state`; anything else that asks gets 404. */
function callback(server: Server, state: string, signal: AbortSignal): Promise<URLSearchParams> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(
      () => reject(refused("Nobody signed in within ten minutes.", "berth login")),
      WAIT_MS,
    );
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    server.on("request", (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
      const ours = pathname === "/callback" && searchParams.get("state") === state;
      const headers = { "content-type": "text/plain; charset=utf-8", connection: "close" };
      response.writeHead(ours ? 200 : 404, headers);
      if (!ours) return response.end("Nothing is here.\n");
      clearTimeout(late);
      const denied = searchParams.has("error");
      response.end(
        `${denied ? "Access was denied." : "You are signed in."} You can close this window.\n`,
        () => resolve(searchParams),
      );
    });
    server.once("close", () => clearTimeout(late));
  });
}

function codeIn(back: URLSearchParams, { server }: Provider): string {
  const iss = back.get("iss");
  const expected = server.authorization_response_iss_parameter_supported || iss !== null;
  if (expected && iss !== server.issuer) throw refused("Another server answered the sign-in.", "berth login");
  const code = back.get("code");
  if (code) return code;
  const error = back.get("error");
  if (error === "access_denied")
    throw new Failure("refused", "Access was denied.", "berth login", "access_denied");
  throw refused(`The sign-in was refused: ${back.get("error_description") ?? error}`, "berth login");
}
