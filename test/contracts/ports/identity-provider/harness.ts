import { createHash, randomBytes } from "node:crypto";
import { findMember } from "../../../../services/identity/accounts/sql.ts";
import type { Grant } from "../../../../services/identity/grants/sql.ts";
import { insertGrant } from "../../../../services/identity/grants/sql.ts";
import type { ClientDocument, IdentityProvider } from "../../../../services/identity/oauth/port.ts";
import { insertClient } from "../../../../services/identity/oauth/registration/sql.ts";
import { claimChallenge } from "../../../../services/identity/oauth/sql.ts";
import type { TestIdentity } from "../../../../services/identity/testing.ts";
import { hashToken } from "../../../../services/kit/crypto/bearer-token.ts";
import { newId } from "../../../../services/kit/ids.ts";
import { browser } from "../../../support/oauth/browser.ts";

/** A provider, and the origin at which browsers and clients reach it. */
export type ProviderHarness = {
  provider: IdentityProvider;
  /** The users and accounts that consent, and the database with rows that callers of a provider write. */
  identity: TestIdentity;
  origin: string;
  resource: string;
  close(): Promise<void>;
};

const CALLBACK = "http://127.0.0.1:3000/callback";

export type Tokens = { access_token: string; refresh_token: string; expires_in: number };

/** What a client, the browser of its user, and Berth do with a provider. */
export function actors({ provider, identity, origin, resource }: ProviderHarness) {
  const { pool } = identity;

  /** Registers a client. */
  async function register(more: Partial<ClientDocument> = {}): Promise<string> {
    const client_id = randomBytes(16).toString("base64url");
    const client = {
      client_id,
      client_name: "An app",
      client_id_issued_at: Math.floor(Date.now() / 1000),
      redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
      application_type: "native",
      scope: "platform:read platform:write offline_access",
      ...more,
    };
    await insertClient(pool, client, new Date());
    const refusal = await provider.registerClient(client);
    if (refusal) throw new Error(`not registered: ${JSON.stringify(refusal)}`);
    return client_id;
  }

  /** Opens the authorization endpoint in a browser; `more` changes the request, undefined leaves a parameter out. */
  async function begin(clientId: string, more: Record<string, string | undefined> = {}, go = browser()) {
    const verifier = randomBytes(32).toString("base64url");
    const parameters: Record<string, string | undefined> = {
      client_id: clientId,
      response_type: "code",
      redirect_uri: CALLBACK,
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
      scope: "platform:read platform:write",
      state: "state-of-the-client",
      resource,
      ...more,
    };
    const given = Object.entries(parameters).filter((one): one is [string, string] => one[1] !== undefined);
    const url = `${origin}/oauth2/auth?${new URLSearchParams(given)}`;
    const { location } = await go(url);
    return { go, verifier, url, location, challenge: parameter(location, "login_challenge") };
  }

  /** Claims a challenge, as its answer needs, and returns the verifier. */
  async function claim(challenge: string): Promise<string> {
    const verifier = randomBytes(32).toString("base64url");
    const expiresAt = new Date(Date.now() + 600_000);
    await claimChallenge(pool, { hash: hashToken(challenge), verifierHash: hashToken(verifier), expiresAt });
    return verifier;
  }

  /** Has a user sign in to a begun authorization, and returns the challenge of the consent. */
  async function signIn(begun: { go: ReturnType<typeof browser>; challenge: string }, userId: string) {
    const verifier = await claim(begun.challenge);
    const redirectTo = (await provider.acceptLogin(begun.challenge, { userId, verifier }))!;
    const { location } = await begun.go(redirectTo);
    return { redirectTo, location, challenge: parameter(location, "consent_challenge") };
  }

  /** Gives the consent of a user, and returns where that leads. */
  async function consent(challenge: string, clientId: string, more: Partial<Grant> = {}) {
    const { ownerId: userId, accountId } = identity;
    const grant: Grant = { id: newId("grt"), userId, clientId, accountId, role: "editor", ...more };
    const verifier = await claim(challenge);
    const redirectTo = (await provider.acceptConsent(challenge, { grant, verifier }))!;
    const { id: membershipId } = (await findMember(pool, grant.accountId, grant.userId))!;
    const times = { grantedAt: new Date(), expiresAt: new Date(Date.now() + 3600_000) };
    await insertGrant(pool, { ...grant, ...times, membershipId, clientName: "An app" });
    return { grant, redirectTo };
  }

  /** Asks the token endpoint; returns status and body. */
  async function token(clientId: string, form: Record<string, string>) {
    const response = await fetch(`${origin}/oauth2/token`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ client_id: clientId, resource, ...form }).toString(),
    });
    return { status: response.status, body: (await response.json()) as Tokens & { error?: string } };
  }

  const exchange = (clientId: string, code: string, verifier: string) =>
    token(clientId, {
      grant_type: "authorization_code",
      ...{ code, redirect_uri: CALLBACK, code_verifier: verifier },
    });

  const refresh = (clientId: string, refreshToken: string) =>
    token(clientId, { grant_type: "refresh_token", refresh_token: refreshToken });

  /** Does all of it: a new client, or the given one, gets tokens of a grant of the user's. */
  async function authorize(more: { clientId?: string } & Partial<Grant> = {}) {
    const { clientId = await register(), ...granted } = more;
    const begun = await begin(clientId);
    const asked = await signIn(begun, granted.userId ?? identity.ownerId);
    const { grant, redirectTo } = await consent(asked.challenge, clientId, granted);
    const back = await begun.go(redirectTo);
    const code = parameter(back.location, "code");
    const { body: tokens } = await exchange(clientId, code, begun.verifier);
    return { clientId, grant, tokens, code, verifier: begun.verifier };
  }

  return { register, begin, claim, signIn, consent, exchange, refresh, authorize };
}

/** The parameter of the URL that a browser is sent to, or "". */
export function parameter(url: string | null, name: string): string {
  return new URL(url ?? "", "http://relative.example.com").searchParams.get(name) ?? "";
}
