import type { Logger } from "../../../kit/log.ts";
import { REFRESH_SECONDS } from "../../grants/lifecycle.ts";
import type { ClientDocument, IdentityProvider } from "../port.ts";
import { OFFLINE, READ, scopesOf, toolsOf, WRITE } from "../scopes.ts";
import { type Answer, createAdminApi } from "./admin-api.ts";
import { audienceOf, faultOf, toAccessToken, toRedirect, toRefusal, toRequest } from "./answers.ts";

export type HydraOptions = {
  log: Logger;
  /** The admin API, which has no authentication of its own. */
  adminUrl: string;
  /** The public origin, which is Hydra's issuer. */
  origin: string;
  /** The audience of tokens: the base URL of the API. */
  resource: string;
  accessTokenSeconds: number;
  now: () => number;
};

type Kind = "login" | "consent";

/** The statuses for a challenge that is unknown, expired, of the other kind, or (before Hydra 2.2) was used. */
const ENDED = [401, 404, 409, 410];

/** Ory Hydra as the provider (docs/oauth.md#providers). Its own verifiers bind a decision to the browser that started. */
export function createHydra(options: HydraOptions): IdentityProvider {
  const { origin, resource, now } = options;
  const admin = createAdminApi({ url: options.adminUrl, log: options.log });
  const settings = () => ({ origin, resource, now: now() });
  const request = (body: Answer["body"]) => toRequest(body, settings());

  /** Returns what `read` makes of the request of a challenge; undefined when the challenge has ended. */
  async function find<T>(kind: Kind, challenge: string, read: (body: Answer["body"]) => T) {
    const call = {
      method: "GET" as const,
      path: `/oauth2/auth/requests/${kind}`,
      query: { [`${kind}_challenge`]: challenge },
      // The challenge is the only input that can be invalid.
      expect: [200, 400, ...ENDED],
    };
    return admin(call, ({ status, body }) => (status === 200 ? read(body) : undefined));
  }

  async function answer(kind: Kind, verdict: "accept" | "reject", challenge: string, json: object) {
    const call = {
      method: "PUT" as const,
      path: `/oauth2/auth/requests/${kind}/${verdict}`,
      query: { [`${kind}_challenge`]: challenge },
      json,
      expect: [200, ...ENDED],
    };
    return admin(call, ({ status, body }) => (status === 200 ? toRedirect(body, kind, origin) : undefined));
  }

  return {
    findLogin: (challenge) => find("login", challenge, request),
    async acceptLogin(challenge, { userId }) {
      const found = await find("login", challenge, (body) => ({
        ...request(body),
        fault: faultOf(body, options),
      }));
      // For a user other than the expected one, Hydra would silently start over.
      if (!found || (found.subject !== undefined && found.subject !== userId)) return undefined;
      if (found.fault) return answer("login", "reject", challenge, { ...found.fault, status_code: 400 });
      return answer("login", "accept", challenge, { subject: userId, remember: false });
    },
    findConsent: (challenge) => find("consent", challenge, request),
    async acceptConsent(challenge, { grant }) {
      const found = await find("consent", challenge, (body) => ({
        ...request(body),
        audience: audienceOf(body, options),
      }));
      if (!found || found.subject !== grant.userId) return undefined;
      const { id: grant_id, accountId: account_id, role } = grant;
      const scopes = scopesOf(role).filter((one) => one === READ || found.requestedScope.includes(one));
      return answer("consent", "accept", challenge, {
        // Without it there is no refresh token, even if the client's metadata asks for one.
        grant_scope: [...scopes, OFFLINE],
        grant_access_token_audience: [found.audience],
        remember: false,
        session: { access_token: { account_id, role, grant_id }, id_token: {} },
      });
    },
    reject: (kind, challenge) =>
      answer(kind, "reject", challenge, {
        error: "access_denied",
        error_description: "The user denied the request",
        status_code: 403,
      }),
    // Hydra before 25.4 knows no devices, and later ones only in a flow of pages of their own.
    findDevice: async () => undefined,
    prepareGrant: async () => {},
    registerClient(client) {
      const call = { method: "POST" as const, path: "/clients", json: toHydraClient(client, options) };
      // A client that is there already is one of Berth's own: the ids of all others are random.
      return admin({ ...call, expect: [201, 400, 409] }, ({ status, body }) =>
        status === 400 ? toRefusal(body) : undefined,
      );
    },
    async deleteClient(clientId) {
      const path = `/clients/${encodeURIComponent(clientId)}`;
      await admin({ method: "DELETE", path, expect: [204, 404] }, () => {});
    },
    async revoke({ userId: subject, clientId: client }) {
      const path = "/oauth2/auth/sessions/consent";
      await admin({ method: "DELETE", path, query: { subject, client }, expect: [204, 404] }, () => {});
    },
    verifyAccessToken: (token) =>
      admin({ method: "POST", path: "/oauth2/introspect", form: { token }, expect: [200] }, ({ body }) =>
        toAccessToken(body, settings()),
      ),
  };
}

/** Members of the metadata that Hydra stores unchanged. */
const UNCHANGED = [
  "client_name",
  "redirect_uris",
  "client_uri",
  "logo_uri",
  "tos_uri",
  "policy_uri",
  "contacts",
];

function toHydraClient(client: ClientDocument, options: HydraOptions) {
  const { resource, accessTokenSeconds } = options;
  const [lifespan, refreshLifespan] = [`${accessTokenSeconds}s`, `${REFRESH_SECONDS}s`];
  return {
    ...Object.fromEntries(UNCHANGED.filter((name) => name in client).map((name) => [name, client[name]])),
    client_id: client.client_id,
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    // Hydra refuses anything that is not in these lists; for the audience only at the first refresh.
    scope: [READ, WRITE, OFFLINE].join(" "),
    audience: [resource, toolsOf(options)],
    authorization_code_grant_access_token_lifespan: lifespan,
    refresh_token_grant_access_token_lifespan: lifespan,
    authorization_code_grant_refresh_token_lifespan: refreshLifespan,
    refresh_token_grant_refresh_token_lifespan: refreshLifespan,
  };
}
