import { createHash } from "node:crypto";
import Provider, { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import { open, seal } from "../../../kit/crypto/aead.ts";
import { type Db, execute, one, type Pool } from "../../../kit/postgres/db.ts";
import { GRANT_SECONDS, type GrantEnd } from "../../grants/lifecycle.ts";
import { builtInClient } from "../registration/built-in.ts";
import {
  type ClientDocuments,
  DocumentRefused,
  isDocumentUrl,
} from "../registration/documents/client-documents.ts";
import { findClient } from "../registration/sql.ts";
import { deviceCodes } from "./device-codes.ts";

/** How long a used refresh token keeps working: clients refresh from several processes at once. */
const REFRESH_GRACE_MS = 30_000;

export type ArtifactOptions = {
  pool: Pool;
  now: () => number;
  /** The keys of the installation, the current one first. */
  secrets: Buffer[];
  /** The public origin: the issuer of all tokens. */
  origin: string;
  /** The audience of tokens for the API: its base URL. */
  resource: string;
  /** Called when the provider ends a grant. */
  onGrantEnded: (grantId: string, end: GrantEnd) => Promise<void>;
  /** Clients described by documents, if the installation accepts them. */
  documents?: ClientDocuments | undefined;
};

type Row = { sealed: Buffer; consumedAtMs: number | null };

/** Stores one of the provider's models in the table oauth_artifacts; clients and devices have tables of their own. */
export function artifacts(options: ArtifactOptions, model: string): Adapter {
  const { pool, now, onGrantEnded } = options;
  if (model === "Client") return clients(options);
  const endGrant = async (grantId: string) => {
    await onGrantEnded(grantId, endOf("reuse"));
    await deleteArtifactsOf(pool, [grantId]);
  };
  if (model === "DeviceCode") return deviceCodes({ ...options, endGrant });
  const hashOf = (id: string) => createHash("sha256").update(`${model}|${id}`).digest();
  const keyOf = (id: string) => createHash("sha256").update(`seal|${model}|${id}`).digest();

  async function findGrantOf(hash: Buffer): Promise<string | undefined> {
    const text = `select grant_id as "grantId" from oauth_artifacts where hash = $1`;
    const found = await one<{ grantId: string | null }>(pool, "oauth_artifact_grant", text, [hash]);
    return found?.grantId ?? undefined;
  }

  return {
    async upsert(id, { jti: _, ...payload }, expiresIn = GRANT_SECONDS) {
      const hash = hashOf(id);
      const grantId = model === "Grant" ? id : (payload.grantId ?? null);
      const sealed = seal(keyOf(id), hash, Buffer.from(JSON.stringify(payload)));
      await execute(
        pool,
        "oauth_artifact_upsert",
        `insert into oauth_artifacts (hash, model, sealed, grant_id, expires_at) values ($1, $2, $3, $4, $5)
         on conflict (hash) do update set sealed = excluded.sealed, grant_id = excluded.grant_id,
           expires_at = excluded.expires_at`,
        [...[hash, model, sealed, grantId], new Date(now() + expiresIn * 1000)],
      );
    },
    async find(id) {
      const hash = hashOf(id);
      const row = await one<Row>(
        pool,
        "oauth_artifact_find",
        `select sealed, extract(epoch from consumed_at)::float8 * 1000 as "consumedAtMs" from oauth_artifacts
         where hash = $1 and expires_at > $2`,
        [hash, new Date(now())],
      );
      const plain = row && open(keyOf(id), hash, row.sealed);
      if (!plain) return undefined;
      const payload = { ...(JSON.parse(plain.toString()) as AdapterPayload), jti: id };
      const { consumedAtMs } = row;
      const again = model === "RefreshToken" && consumedAtMs && now() - consumedAtMs < REFRESH_GRACE_MS;
      return !consumedAtMs || again ? payload : { ...payload, consumed: Math.floor(consumedAtMs / 1000) };
    },
    async consume(id) {
      const hash = hashOf(id);
      const text = "update oauth_artifacts set consumed_at = $2 where hash = $1 and consumed_at is null";
      const taken = await execute(pool, "oauth_artifact_consume", text, [hash, new Date(now())]);
      // It was consumed before: a code works once, a refresh token again within the grace period.
      if (taken === 1 || model === "RefreshToken") return;
      const grantId = await findGrantOf(hash);
      if (grantId !== undefined) await endGrant(grantId);
      throw new errors.InvalidGrant("already consumed");
    },
    async destroy(id) {
      const hash = hashOf(id);
      // A code or refresh token was used twice, or the client revoked its token: access tokens end as well. They end
      // before the token is gone: a revocation that breaks off finds it again.
      const grantId = model === "Grant" ? id : model === "RefreshToken" ? await findGrantOf(hash) : undefined;
      if (grantId !== undefined) await onGrantEnded(grantId, endOf());
      const text = "delete from oauth_artifacts where hash = $1";
      await execute(pool, "oauth_artifact_delete", text, [hash]);
    },
    async revokeByGrantId(grantId) {
      await onGrantEnded(grantId, endOf());
      const text = "delete from oauth_artifacts where grant_id = $1 and model = $2";
      await execute(pool, "oauth_artifact_revoke", text, [grantId, model]);
    },
    // Berth does not look up the provider's sessions, and finds devices itself.
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}

/** Deletes everything issued for grants, so that no new token can be obtained. */
export function deleteArtifactsOf(pool: Pool, grantIds: string[]): Promise<number> {
  const text = "delete from oauth_artifacts where grant_id = any($1)";
  return execute(pool, "oauth_artifacts_of_grants_delete", text, [grantIds]);
}

/** Deletes up to `limit` artifacts that have expired. Returns how many. */
export function deleteExpiredArtifacts(db: Db, now: Date, limit: number): Promise<number> {
  const text = `delete from oauth_artifacts where hash = any(array(select hash from oauth_artifacts
    where expires_at < $1 order by expires_at limit $2 for update skip locked))`;
  return execute(db, "oauth_artifacts_sweep", text, [now, limit]);
}

// Returns why the grant ends, judged by the request that the provider is answering.
function endOf(by?: GrantEnd["by"]): GrantEnd {
  const ctx = Provider.ctx;
  const header = (name: string) => String(ctx?.req.headers[name] ?? "");
  return {
    by: by ?? (ctx?.oidc.route === "revocation" ? "client" : "reuse"),
    ip: header("x-forwarded-for"),
    requestId: header("x-request-id"),
  };
}

function clients({ pool, documents }: ArtifactOptions): Adapter {
  const never = async () => {
    throw new Error("The provider does not write clients");
  };
  return {
    async find(id) {
      const client = isDocumentUrl(id)
        ? await documents?.find(id).catch(asInvalidClient)
        : (builtInClient(id) ?? (await findClient(pool, id)));
      // The provider validates the rest by other rules: scopes are those of the resource, contacts may be anything.
      return (
        client &&
        Object.fromEntries(
          PROVIDER_MEMBERS.filter((name) => name in client).map((name) => [name, client[name]]),
        )
      );
    },
    upsert: never,
    consume: never,
    destroy: never,
    revokeByGrantId: never,
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}

/** The members of a client's metadata that are passed to the provider. */
const PROVIDER_MEMBERS = [
  ...["client_id", "client_id_issued_at", "client_name", "client_uri", "logo_uri", "redirect_uris"],
  ...["grant_types", "response_types", "token_endpoint_auth_method", "application_type"],
];

function asInvalidClient(error: unknown): never {
  if (!(error instanceof DocumentRefused)) throw error;
  throw new errors.CustomOIDCProviderError("invalid_client", error.message);
}
