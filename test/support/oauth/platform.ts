import { createHash, randomBytes } from "node:crypto";
import { testPlatform } from "../../../gateway/testing/test-platform.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { type Answer, openDoor } from "../door.ts";
import { startHydra } from "../servers/hydra-server.ts";
import { type Browser, browser } from "./browser.ts";

/** Identity and a gateway, with what a test of OAuth needs to go through every step by itself. */
export type OauthPlatform = Awaited<ReturnType<typeof oauthPlatform>>;

export const REDIRECT = "http://127.0.0.1:3000/callback";

type Params = Record<string, string | string[] | undefined>;
type AuditRecord = { metadata: Record<string, string> } & Record<string, unknown>;
type Sent = { token?: string | undefined; origin?: string | undefined };

type Options = { hydra?: string | undefined; resource?: string };

/**
 * Starts it, before an Ory Hydra if its program is given; `resource` is what tokens are for, unless it is the base URL.
 * `clock.aheadMs` moves identity's clock of expiry.
 */
export async function oauthPlatform({ hydra: program, resource }: Options = {}) {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const clock = { aheadMs: 0 };
  const logLines: string[] = [];
  const now = () => Date.now() + clock.aheadMs;
  const hydra = program === undefined ? undefined : await startHydra(program, { origin });
  const both: Record<string, string> = resource === undefined ? {} : { OAUTH_RESOURCE: resource };
  const env = { ...both, ...(hydra && { IDENTITY_PROVIDER: "hydra", HYDRA_ADMIN_URL: hydra.adminUrl }) };
  const platform = await testPlatform({}, origin, { now, logLines, env });
  /** What each gateway of this origin is told. */
  const gatewayEnv = { ...both, PUBLIC_ORIGIN: origin, ...(hydra && { OAUTH_URL: hydra.publicUrl }) };
  const gateway = await platform.gateway({ PORT: String(port), ...gatewayEnv }, logLines);
  const pool = createPool(platform.database.url("identity"));
  const door = await openDoor(origin, platform.ownerToken);

  async function post(path: string, form: Params, at = origin) {
    const answer = await fetch(at + path, { method: "POST", body: toQuery(form) });
    const text = await answer.text();
    const body = (text.startsWith("{") ? JSON.parse(text) : {}) as Record<string, string>;
    return { status: answer.status, headers: answer.headers, text, body };
  }

  /** Registers an application. */
  async function register(metadata: object = {}) {
    const answer = await door.call<{ client_id: string }>("POST", "/oauth/register", {
      client_name: "An app",
      redirect_uris: [REDIRECT],
      ...metadata,
    });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body.client_id;
  }

  /** A URL to which the application sends a browser, and the verifier that it keeps. */
  function authorizeUrl(clientId: string, params: Params = {}) {
    const codeVerifier = randomBytes(32).toString("base64url");
    const query = toQuery({
      client_id: clientId,
      response_type: "code",
      redirect_uri: REDIRECT,
      code_challenge: createHash("sha256").update(codeVerifier).digest("base64url"),
      code_challenge_method: "S256",
      scope: "platform:read platform:write",
      state: "the-clients-state",
      resource: `${origin}/v1`,
      ...params,
    });
    return { codeVerifier, url: `${origin}/oauth2/auth?${query}` };
  }

  const complete = (step: "login" | "consent", body: object, { token, origin: at = origin }: Sent = {}) =>
    callAt<{ redirectTo: string }>(at, "POST", `/oauth/${step}/complete`, body, token ?? door.ownerToken);

  /** Opens the application's URL in a browser, which comes to the login challenge. */
  async function begin(clientId: string, options: { go?: Browser; params?: Params } = {}) {
    const { go = browser(), params } = options;
    const { codeVerifier, url } = authorizeUrl(clientId, params);
    const { location } = await go(url);
    const loginChallenge = challengeOf(location, "login");
    return { clientId, go, codeVerifier, loginChallenge };
  }
  type Begun = Awaited<ReturnType<typeof begin>>;

  /** A user signs in where the browser waits, which comes to the consent challenge. */
  async function signIn(begun: Begun, sent: Sent = {}): Promise<string> {
    const { loginChallenge } = begun;
    const { body } = await complete("login", { loginChallenge }, sent);
    return challengeOf((await begun.go(atOrigin(body.redirectTo, sent.origin))).location, "consent");
  }

  /** A user consents where the browser waits, which comes back to the application. */
  async function allow(begun: Begun, how: Sent & { accountId?: string; role?: string } = {}): Promise<URL> {
    const consentChallenge = await signIn(begun, how);
    const { accountId = door.accountId, role = "editor" } = how;
    const { status, body } = await complete("consent", { consentChallenge, accountId, role }, how);
    if (status !== 200) throw new Error(JSON.stringify(body));
    return new URL((await begun.go(atOrigin(body.redirectTo, how.origin))).location!);
  }

  const redeem = (begun: Begun, back: URL, more: Params = {}, at = origin) =>
    post(
      "/oauth2/token",
      {
        grant_type: "authorization_code",
        client_id: begun.clientId,
        code: back.searchParams.get("code")!,
        redirect_uri: REDIRECT,
        code_verifier: begun.codeVerifier,
        resource: `${origin}/v1`,
        ...more,
      },
      at,
    );

  /** The whole flow of an application that a user lets in. */
  async function letIn(
    how: Sent & { clientId?: string; accountId?: string; role?: string; params?: Params } = {},
  ) {
    const clientId = how.clientId ?? (await register());
    const begun = await begin(clientId, { ...(how.params && { params: how.params }) });
    const back = await allow(begun, how);
    const { status, body } = await redeem(begun, back);
    if (status !== 200) throw new Error(JSON.stringify(body));
    return { clientId, begun, back, token: body.access_token!, refreshToken: body.refresh_token!, body };
  }

  return {
    ...{ platform, hydra, gateway, gatewayEnv, pool, origin, clock, logLines },
    ...{ post, register, authorizeUrl, complete, begin, signIn, allow, redeem, letIn },
    ...door,
    refresh: (clientId: string, refreshToken: string, more: Params = {}) =>
      post("/oauth2/token", {
        grant_type: "refresh_token",
        client_id: clientId,
        refresh_token: refreshToken,
        ...more,
      }),
    /** What a machine is answered in the account. */
    async use(token: string, accountId = door.accountId): Promise<number> {
      return (await door.call("GET", `/accounts/${accountId}`, undefined, { token })).status;
    },
    grants: async (token?: string) =>
      (await door.must<unknown>("GET", "/me/mcp-grants", undefined, token)) as Record<string, string>[],
    /** Audit records of the account, newest first. */
    async audited(action: string) {
      const { data } = await door.must<{ data: AuditRecord[] }>(
        "GET",
        `${door.A}/audit-events?action=${action}&limit=100`,
      );
      return data;
    },
    async stop() {
      await pool.end();
      await platform.stop();
      await hydra?.stop();
    },
  };

  function atOrigin(url: string, at = origin) {
    return url.replace(origin, at);
  }
}

async function callAt<T>(at: string, method: string, path: string, body: object, token: string) {
  const answer = await fetch(`${at}/v1${path}`, {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Answer<T>["body"] };
}

export function challengeOf(location: string | null, kind: "login" | "consent"): string {
  const challenge = new URL(location ?? "http://nowhere").searchParams.get(`${kind}_challenge`);
  if (!challenge) throw new Error(`The browser was sent to ${location}, not to a ${kind}`);
  return challenge;
}

function toQuery(params: Params): URLSearchParams {
  const pairs = Object.entries(params).flatMap(([name, value]) =>
    [value ?? []].flat().map((each) => [name, each] as [string, string]),
  );
  return new URLSearchParams(pairs);
}
