import { createHash } from "node:crypto";
import Provider, { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import { open, seal } from "../../../kit/aead.ts";
import { execute, one, type Pool } from "../../../kit/postgres/db.ts";
import { GRANT_SECONDS, type GrantEnd } from "../grants.ts";
import {
  type ClientDocuments,
  DocumentRefused,
  isDocumentUrl,
} from "../registration/documents/client-documents.ts";
import { findClient } from "../registration/sql.ts";

/** For how long a refresh token that was exchanged works again: clients refresh from several processes at once. */
const REFRESH_GRACE_MS = 30_000;

export type ArtifactOptions = {
  pool: Pool;
  now: () => number;
  /** Records that the provider ended a grant. */
  grantEnded: (grantId: string, end: GrantEnd) => Promise<void>;
  /** Clients that documents describe, if they are let in. */
  documents?: ClientDocuments | undefined;
};

type Row = { sealed: Buffer; consumedAtMs: number | null };

/** The storage of one of the provider's models, in the table oauth_artifacts; clients have their own table. */
export function artifacts(options: ArtifactOptions, model: string): Adapter {
  const { pool, now, grantEnded } = options;
  if (model === "Client") return clients(options);
  const hashOf = (id: string) => createHash("sha256").update(`${model}|${id}`).digest();
  const keyOf = (id: string) => createHash("sha256").update(`seal|${model}|${id}`).digest();

  /** Ends the grant of something that was used twice. */
  async function endGrantOf(hash: Buffer): Promise<void> {
    const text = `select grant_id as "grantId" from oauth_artifacts where hash = $1`;
    const found = await one<{ grantId: string | null }>(pool, "oauth_artifact_grant", text, [hash]);
    if (!found?.grantId) return;
    await grantEnded(found.grantId, endOf("reuse"));
    await deleteArtifactsOf(pool, [found.grantId]);
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
      // Somebody else was first: a code works once, a refresh token again for a while.
      if (taken === 1 || model === "RefreshToken") return;
      await endGrantOf(hash);
      throw new errors.InvalidGrant("already consumed");
    },
    async destroy(id) {
      // A code or refresh token that was used twice, or a client that revoked its token: access tokens end as well.
      if (model === "Grant") await grantEnded(id, endOf());
      const text = "delete from oauth_artifacts where hash = $1";
      await execute(pool, "oauth_artifact_delete", text, [hashOf(id)]);
    },
    async revokeByGrantId(grantId) {
      const text = "delete from oauth_artifacts where grant_id = $1 and model = $2";
      await execute(pool, "oauth_artifact_revoke", text, [grantId, model]);
    },
    // Nothing is bound to the provider's sessions, and there are no device codes.
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}

/** Deletes what was issued for grants, so that nothing more is. */
export function deleteArtifactsOf(pool: Pool, grantIds: string[]): Promise<number> {
  const text = "delete from oauth_artifacts where grant_id = any($1)";
  return execute(pool, "oauth_artifacts_of_grants_delete", text, [grantIds]);
}

// Why the grant ends, by the request that the provider is answering.
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
        : await findClient(pool, id);
      // The rest is not the provider's: scopes are those of the resource, contacts may be anything.
      return (
        client &&
        Object.fromEntries(KNOWN.filter((name) => name in client).map((name) => [name, client[name]]))
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

/** What the provider knows of a client. */
const KNOWN = [
  ...["client_id", "client_id_issued_at", "client_name", "client_uri", "logo_uri", "redirect_uris"],
  ...["grant_types", "response_types", "token_endpoint_auth_method", "application_type"],
];

function asInvalidClient(error: unknown): never {
  if (!(error instanceof DocumentRefused)) throw error;
  throw new errors.CustomOIDCProviderError("invalid_client", error.message);
}
