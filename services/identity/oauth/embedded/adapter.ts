import type http from "node:http";
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from "jose";
import type Provider from "oidc-provider";
import { errors, type Interaction } from "oidc-provider";
import {
  type AuthorizationRequest,
  type ClientView,
  type IdentityProvider,
  redirectHostOf,
} from "../port.ts";
import { isDocumentUrl } from "../registration/documents/client-documents.ts";
import { scopesOf, WRITE } from "../scopes.ts";
import { deleteArtifactsOf } from "./artifacts.ts";
import { loadKeys, type SigningKey } from "./keys.ts";
import { createProvider, type EmbeddedOptions } from "./provider.ts";
import { ASKED, type Asked, isProtocolPath } from "./requests.ts";

/** The provider within identity, and what answers the browsers and clients that come to it. */
export type EmbeddedProvider = IdentityProvider & {
  /** Answers the protocol's own paths; false for every other. */
  handle: (req: http.IncomingMessage, res: http.ServerResponse) => boolean;
  /** Takes over keys that were made since, and makes those that are due. */
  renewKeys: () => Promise<void>;
};

/** Starts the embedded provider on identity's database (docs/oauth.md#providers). */
export async function createEmbedded(options: EmbeddedOptions): Promise<EmbeddedProvider> {
  const { pool, secrets, origin, resource, documents, now } = options;
  let keys: SigningKey[] = await loadKeys(pool, secrets, now());
  let provider = createProvider(options, keys);
  let answerRequest = provider.callback();
  let verificationKeys = publicKeys(keys);

  async function find(kind: "login" | "consent", challenge: string): Promise<Interaction | undefined> {
    const found = await provider.Interaction.find(challenge);
    return found?.prompt.name === kind ? found : undefined;
  }

  async function view(found: Interaction | undefined): Promise<AuthorizationRequest | undefined> {
    const client = found && (await clientView(provider, found));
    if (!client) return undefined;
    const asked = JSON.parse(String(found.params[ASKED])) as Asked;
    return {
      client,
      requestedScope: asked.scope,
      requestedAudience: asked.resource.length > 0 ? [...new Set(asked.resource)] : [resource],
      subject: expectedUser(found),
      expiresAt: new Date(found.exp * 1000),
    };
  }

  async function answer(
    found: Interaction,
    result: Interaction["result"],
    verifier: string,
  ): Promise<string> {
    found.result = result;
    await found.persist();
    return `${found.returnTo}?verifier=${verifier}`;
  }

  return {
    findLogin: async (challenge) => view(await find("login", challenge)),
    async acceptLogin(challenge, { userId, verifier }) {
      const found = await find("login", challenge);
      const login = { accountId: userId, remember: false, ts: Math.floor(now() / 1000), amr: ["pwd"] };
      return found && answer(found, { ...found.lastSubmission, login }, verifier);
    },
    findConsent: async (challenge) => view(await find("consent", challenge)),
    async acceptConsent(challenge, { grant, verifier }) {
      const found = await find("consent", challenge);
      if (!found) return undefined;
      if (isDocumentUrl(grant.clientId)) await documents?.keep(grant.clientId);
      const granted = new provider.Grant({ accountId: grant.userId, clientId: grant.clientId });
      granted.jti = grant.id;
      const oidc = (found.prompt.details.missingOIDCScope ?? []) as string[];
      if (oidc.length > 0) granted.addOIDCScope(oidc.join(" "));
      for (const target of [found.params.resource].flat() as string[]) {
        granted.addResourceScope(target, scopesOf(grant.role).join(" "));
        if (grant.role === "reader") granted.rejectResourceScope(target, WRITE);
      }
      const grantId = await granted.save();
      return answer(found, { ...found.lastSubmission, consent: { grantId } }, verifier);
    },
    async reject(kind, challenge, { verifier }) {
      const found = await find(kind, challenge);
      const result = { error: "access_denied", error_description: "The user denied the request" };
      return found && answer(found, result, verifier);
    },
    // Its row is all there is of a client.
    registerClient: async () => undefined,
    deleteClient: async () => {},
    async revoke({ grantIds }) {
      await deleteArtifactsOf(pool, grantIds);
    },
    async verifyAccessToken(token) {
      try {
        const { payload } = await jwtVerify(token, verificationKeys, {
          issuer: origin,
          audience: resource,
          typ: "at+jwt",
          algorithms: ["ES256"],
          currentDate: new Date(now()),
          requiredClaims: ["exp", "sub", "grant_id"],
        });
        return { grantId: String(payload.grant_id), expiresAt: new Date(payload.exp! * 1000) };
      } catch {
        return undefined;
      }
    },
    handle(req, res) {
      if (!isProtocolPath(req.url!.split("?")[0]!)) return false;
      void answerRequest(req, res);
      return true;
    },
    async renewKeys() {
      const current = await loadKeys(pool, secrets, now());
      if (current.map((key) => key.kid).join() === keys.map((key) => key.kid).join()) return;
      keys = current;
      provider = createProvider(options, keys);
      answerRequest = provider.callback();
      verificationKeys = publicKeys(keys);
    },
  };
}

function publicKeys(keys: SigningKey[]) {
  return createLocalJWKSet({ keys: keys.map(({ d: _, ...key }) => key) } as JSONWebKeySet);
}

/** Who signed in, or else of whom the client has an ID token, which the provider has verified. */
function expectedUser({ session, params }: Interaction): string | undefined {
  if (session?.accountId !== undefined) return session.accountId;
  const hint = params.id_token_hint;
  return typeof hint === "string" ? decodeJwt(hint).sub : undefined;
}

async function clientView(provider: Provider, { params }: Interaction): Promise<ClientView | undefined> {
  const client = await provider.Client.find(String(params.client_id)).catch(ifRefused);
  if (!client) return undefined;
  const { clientId, clientName = clientId, clientUri = "", logoUri = "" } = client;
  const redirectHost = redirectHostOf(String(params.redirect_uri));
  const view = { clientId, clientName, clientUri, logoUri, redirectHost };
  return isDocumentUrl(clientId) ? { ...view, documentHost: new URL(clientId).host } : view;
}

/** The document that describes a client may be gone since. */
function ifRefused(error: unknown): undefined {
  if (!(error instanceof errors.OIDCProviderError)) throw error;
}
