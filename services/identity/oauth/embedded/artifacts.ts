import { createHash } from "node:crypto";
import { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import { execute, one, type Pool } from "../../../kit/postgres/db.ts";
import { findClient } from "../sql.ts";

/** For how long a refresh token that was exchanged works again: clients refresh from several processes at once. */
const REFRESH_GRACE_MS = 30_000;
/** Artifacts that have no end of their own are kept for as long as grants. */
const LONGEST_SECONDS = 365 * 24 * 3600;

/** Ids that are secrets: whoever knows one holds a code, a refresh token, or a browser's session. */
const SECRET = new Set(["AuthorizationCode", "RefreshToken", "Session", "Interaction"]);

type Row = { payload: AdapterPayload; consumedAtMs: number | null };

/** The storage of one of the provider's models, in the table oauth_artifacts; clients have their own table. */
export function artifacts(
  pool: Pool,
  model: string,
  grantEnded: (grantId: string) => Promise<void>,
): Adapter {
  if (model === "Client") return clients(pool);
  const keyOf = (id: string) =>
    SECRET.has(model) ? createHash("sha256").update(id).digest("base64url") : id;

  async function findBy(column: "id" | "uid", value: string): Promise<AdapterPayload | undefined> {
    const row = await one<Row>(
      pool,
      `oauth_artifact_find_by_${column}`,
      `select payload, extract(epoch from consumed_at)::float8 * 1000 as "consumedAtMs" from oauth_artifacts
       where model = $1 and ${column} = $2 and expires_at > now()`,
      [model, value],
    );
    if (!row) return undefined;
    const { payload, consumedAtMs } = row;
    const again = model === "RefreshToken" && consumedAtMs && Date.now() - consumedAtMs < REFRESH_GRACE_MS;
    if (!consumedAtMs || again) return payload;
    return { ...payload, consumed: Math.floor(consumedAtMs / 1000) };
  }

  return {
    async upsert(id, { jti: _, ...payload }, expiresIn = LONGEST_SECONDS) {
      await execute(
        pool,
        "oauth_artifact_upsert",
        `insert into oauth_artifacts (model, id, payload, grant_id, uid, expires_at)
         values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))
         on conflict (model, id) do update set payload = excluded.payload, grant_id = excluded.grant_id,
           uid = excluded.uid, expires_at = excluded.expires_at`,
        [model, keyOf(id), payload, payload.grantId ?? null, payload.uid ?? null, expiresIn],
      );
    },
    async find(id) {
      const payload = await findBy("id", keyOf(id));
      return payload && { ...payload, jti: id };
    },
    findByUid: (uid) => findBy("uid", uid),
    findByUserCode: async () => undefined,
    async consume(id) {
      const taken = await execute(
        pool,
        "oauth_artifact_consume",
        `update oauth_artifacts set consumed_at = now()
         where model = $1 and id = $2 and consumed_at is null`,
        [model, keyOf(id)],
      );
      // Somebody else was first: a code works once, a refresh token again for a while.
      if (taken === 0 && model !== "RefreshToken") throw new errors.InvalidGrant("already consumed");
    },
    async destroy(id) {
      // A code or refresh token that was used twice, or a client that revoked its token: access tokens end as well.
      if (model === "Grant") await grantEnded(id);
      const text = "delete from oauth_artifacts where model = $1 and id = $2";
      await execute(pool, "oauth_artifact_delete", text, [model, keyOf(id)]);
    },
    async revokeByGrantId(grantId) {
      const text = "delete from oauth_artifacts where model = $1 and grant_id = $2";
      await execute(pool, "oauth_artifact_revoke", text, [model, grantId]);
    },
  };
}

function clients(pool: Pool): Adapter {
  const never = async () => {
    throw new Error("The provider does not write clients");
  };
  return {
    async find(id) {
      const client = await findClient(pool, id);
      if (!client) return undefined;
      // Scopes are those of the resource, which the provider does not look for in a client.
      const { scope: _, ...metadata } = client;
      return metadata as AdapterPayload;
    },
    upsert: never,
    consume: never,
    destroy: never,
    revokeByGrantId: never,
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}
