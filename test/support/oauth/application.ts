import { createHash, randomBytes } from "node:crypto";
import { browser } from "./browser.ts";

type Call = (
  method: string,
  path: string,
  body?: unknown,
  options?: { token?: string },
) => Promise<{ status: number; body: object }>;

/** Who lets an application in (the owner, unless `token` is another user's), and to what. */
export type Consent = { token?: string; accountId: string; role: "reader" | "editor" };

/**
 * Opens an application's authorization URL as a user who signs in and consents, and returns where the browser is sent
 * then: back to the application.
 */
export async function consent(call: Call, authorizationUrl: string, how: Consent): Promise<URL> {
  const { token, accountId, role } = how;
  const go = browser();
  const open = async (url: string): Promise<URL> => {
    const { status, location, text } = await go(url);
    if (location === null) throw new Error(`${url.split("?")[0]}: ${status} ${text.slice(0, 200)}`);
    return new URL(location);
  };
  const complete = async (step: "login" | "consent", body: object): Promise<URL> => {
    const answer = await call("POST", `/oauth/${step}/complete`, body, token === undefined ? {} : { token });
    if (answer.status !== 200) throw new Error(`${step}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return open((answer.body as { redirectTo: string }).redirectTo);
  };
  const login = await open(authorizationUrl);
  const loginChallenge = login.searchParams.get("login_challenge");
  if (!loginChallenge) throw new Error(`The authorization was refused: ${login.search}`);
  const between = await complete("login", { loginChallenge });
  const consentChallenge = between.searchParams.get("consent_challenge");
  if (!consentChallenge) throw new Error(`The sign-in was refused: ${between.search}`);
  return complete("consent", { consentChallenge, accountId, role });
}

const REDIRECT = "http://127.0.0.1:3000/callback";

/** An application that a user let in. */
export type App = Awaited<ReturnType<typeof connectApp>>;

/** Registers an application at `origin` and has a user let it in; `clientId` is that of one registered before. */
export async function connectApp(
  { origin, call }: { origin: string; call: Call },
  how: Consent & { clientId?: string; name?: string },
) {
  const resource = `${origin}/v1`;
  const post = async (path: string, body: Record<string, string>) => {
    const answer = await fetch(origin + path, { method: "POST", body: new URLSearchParams(body) });
    return { status: answer.status, body: (await answer.json().catch(() => ({}))) as Record<string, string> };
  };
  const issued = ({ status, body }: Awaited<ReturnType<typeof post>>) => {
    if (status !== 200) throw new Error(`/oauth2/token: ${status} ${body.error} ${body.error_description}`);
    return { accessToken: body.access_token!, refreshToken: body.refresh_token! };
  };
  const clientId = how.clientId ?? (await register(resource, how.name ?? "An app"));
  const verifier = randomBytes(32).toString("base64url");
  const query = new URLSearchParams({
    client_id: clientId,
    response_type: "code",
    redirect_uri: REDIRECT,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
    scope: "platform:read platform:write",
    state: "a-state-of-its-own",
    resource,
  });
  const back = await consent(call, `${origin}/oauth2/auth?${query}`, how);
  const code = back.searchParams.get("code");
  if (!code) throw new Error(`The browser came back with ${back.search}`);
  const redeem = {
    grant_type: "authorization_code",
    client_id: clientId,
    code,
    redirect_uri: REDIRECT,
    code_verifier: verifier,
    resource,
  };
  const first = issued(await post("/oauth2/token", redeem));
  const refresh = (refreshToken: string) =>
    post("/oauth2/token", { grant_type: "refresh_token", client_id: clientId, refresh_token: refreshToken });
  return {
    clientId,
    ...first,
    /** Exchanges a refresh token for new tokens; the first one unless another is given. */
    refresh: async (refreshToken = first.refreshToken) => issued(await refresh(refreshToken)),
    /** Returns status and error of a refresh, for one that is to fail. */
    refused: async (refreshToken = first.refreshToken) => {
      const { status, body } = await refresh(refreshToken);
      return `${status} ${body.error}`;
    },
    /** Ends the access, as the application itself does when its user signs out of it. */
    revoke: (token = first.refreshToken) => post("/oauth2/revoke", { client_id: clientId, token }),
  };
}

async function register(resource: string, name: string): Promise<string> {
  const answer = await fetch(`${resource}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: name, redirect_uris: [REDIRECT] }),
  });
  const text = await answer.text();
  if (answer.status !== 201) throw new Error(`/oauth/register: ${answer.status} ${text}`);
  return (JSON.parse(text) as { client_id: string }).client_id;
}
