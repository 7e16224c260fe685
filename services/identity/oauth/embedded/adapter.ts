import type http from "node:http";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from "jose";
import type Provider from "oidc-provider";
import { errors, type Interaction } from "oidc-provider";
import type { Grant } from "../../grants/sql.ts";
import { findDevice } from "../devices/sql.ts";
import { userCodeMacs } from "../devices/user-codes.ts";
import {
  type AuthorizationRequest,
  type ClientView,
  type IdentityProvider,
  redirectHostOf,
} from "../port.ts";
import { builtInClient } from "../registration/built-in.ts";
import { isDocumentUrl } from "../registration/documents/client-documents.ts";
import { findSpellings, oidcScopesOf, scopesOf, spellingsOf, toolsOf, WRITE } from "../scopes.ts";
import { deleteArtifactsOf } from "./artifacts.ts";
import { loadKeys, type SigningKey } from "./keys.ts";
import { createProvider, type EmbeddedOptions } from "./provider.ts";
import { isProtocolPath, ORIGINAL_REQUEST, type OriginalRequest } from "./requests.ts";

/** The provider within identity, with its HTTP endpoints. */
export type EmbeddedProvider = IdentityProvider & {
  /** Handles a request to one of the protocol's paths; returns false for every other. */
  handle: (req: http.IncomingMessage, res: http.ServerResponse) => boolean;
  /** Loads signing keys that other replicas created, and creates those that are due. */
  renewKeys: () => Promise<void>;
};

/** Starts the embedded provider on identity's database (docs/oauth.md#providers). */
export async function createEmbedded(options: EmbeddedOptions): Promise<EmbeddedProvider> {
  const { pool, secrets, origin, resource, documents, now } = options;
  const macs = userCodeMacs(secrets);
  let keys: SigningKey[] = await loadKeys(pool, secrets, now());
  let provider = createProvider(options, keys);
  let answerRequest = provider.callback();
  let verificationKeys = publicKeys(keys);

  async function find(kind: "login" | "consent", challenge: string): Promise<Interaction | undefined> {
    const found = await provider.Interaction.find(challenge);
    return found?.prompt.name === kind ? found : undefined;
  }

  async function toRequest(found: Interaction | undefined): Promise<AuthorizationRequest | undefined> {
    const { client_id: clientId, redirect_uri: redirectUri } = found?.params ?? {};
    const client = found && (await clientView(provider, String(clientId), String(redirectUri)));
    if (!client) return undefined;
    const original = JSON.parse(String(found.params[ORIGINAL_REQUEST])) as OriginalRequest;
    return {
      client,
      requestedScope: original.scope,
      requestedAudience: original.resource.length > 0 ? [...new Set(original.resource)] : [resource],
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

  /** Stores the provider's part of a grant: which scopes it has for which spellings of the resource. */
  async function saveGrant(grant: Grant, { oidc, targets }: { oidc: string[]; targets: string[] }) {
    if (isDocumentUrl(grant.clientId)) await documents?.store(grant.clientId);
    const granted = new provider.Grant({ accountId: grant.userId, clientId: grant.clientId });
    granted.jti = grant.id;
    if (oidc.length > 0) granted.addOIDCScope(oidc.join(" "));
    for (const target of targets) {
      granted.addResourceScope(target, scopesOf(grant.role).join(" "));
      if (grant.role === "reader") granted.rejectResourceScope(target, WRITE);
    }
    return granted.save();
  }

  return {
    findLogin: async (challenge) => toRequest(await find("login", challenge)),
    async acceptLogin(challenge, { userId, verifier }) {
      const found = await find("login", challenge);
      const login = { accountId: userId, remember: false, ts: Math.floor(now() / 1000), amr: ["pwd"] };
      return found && answer(found, { ...found.lastSubmission, login }, verifier);
    },
    findConsent: async (challenge) => toRequest(await find("consent", challenge)),
    async acceptConsent(challenge, { grant, verifier }) {
      const found = await find("consent", challenge);
      if (!found) return undefined;
      const oidc = (found.prompt.details.missingOIDCScope ?? []) as string[];
      const targets = [found.params.resource].flat() as string[];
      const grantId = await saveGrant(grant, { oidc, targets });
      return answer(found, { ...found.lastSubmission, consent: { grantId } }, verifier);
    },
    async reject(kind, challenge, { verifier }) {
      const found = await find(kind, challenge);
      const result = { error: "access_denied", error_description: "The user denied the request" };
      return found && answer(found, result, verifier);
    },
    async findDevice(userCode) {
      const found = await findDevice(pool, macs.macsOf(userCode), new Date(now()));
      const client = found && (await clientView(provider, found.clientId, ""));
      if (!client) return undefined;
      return {
        ...{ client, hash: found.hash, ip: found.ip, pending: found.pending },
        requestedScope: found.scope,
        requestedAudience: [...new Set(found.resource)],
        subject: found.subject ?? undefined,
        requestedAt: timestampDate(found.requestedAt),
        expiresAt: timestampDate(found.expiresAt),
      };
    },
    async prepareGrant(grant, { requestedScope, requestedAudience }) {
      const oidc = oidcScopesOf(requestedScope);
      const targets = findSpellings(requestedAudience, options) ?? spellingsOf(resource);
      await saveGrant(grant, { oidc, targets });
    },
    // A client is only a row, which is inserted before.
    registerClient: async () => undefined,
    deleteClient: async () => {},
    async revoke({ grantIds }) {
      await deleteArtifactsOf(pool, grantIds);
    },
    async verifyAccessToken(token) {
      try {
        const { payload } = await jwtVerify(token, verificationKeys, {
          issuer: origin,
          audience: [resource, toolsOf(options)],
          typ: "at+jwt",
          algorithms: ["ES256"],
          currentDate: new Date(now()),
          requiredClaims: ["exp", "sub", "grant_id"],
        });
        const toolsOnly = ![payload.aud].flat().includes(resource);
        return { grantId: String(payload.grant_id), toolsOnly, expiresAt: new Date(payload.exp! * 1000) };
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

/** Returns the user who signed in, or else the one of the client's ID token, which the provider has verified. */
function expectedUser({ session, params }: Interaction): string | undefined {
  if (session?.accountId !== undefined) return session.accountId;
  const hint = params.id_token_hint;
  return typeof hint === "string" ? decodeJwt(hint).sub : undefined;
}

async function clientView(
  provider: Provider,
  id: string,
  redirectUri: string,
): Promise<ClientView | undefined> {
  const client = await provider.Client.find(id).catch(undefinedIfRefused);
  if (!client) return undefined;
  const { clientId, clientName = clientId, clientUri = "", logoUri = "" } = client;
  return {
    ...{ clientId, clientName, clientUri, logoUri, redirectHost: redirectHostOf(redirectUri) },
    ...(isDocumentUrl(clientId) && { documentHost: new URL(clientId).host }),
    ...(builtInClient(clientId) && { firstParty: true as const }),
  };
}

/** The document that describes a client may no longer exist. */
function undefinedIfRefused(error: unknown): undefined {
  if (!(error instanceof errors.OIDCProviderError)) throw error;
}
