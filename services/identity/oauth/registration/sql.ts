// Statements on registered clients. A client to be deleted is marked first, so that its deletion, which also happens at
// the provider, is completed even after a crash in between.
import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import type { ClientDocument } from "../port.ts";
import { DEVICE_GRANT } from "../scopes.ts";

export function insertClient(db: Db, client: ClientDocument, now: Date) {
  const text = `insert into oauth_clients (id, metadata, device_grant, registered_at, last_used_at)
    values ($1, $2, $3, $4, $4)`;
  const { metadata, deviceGrant } = toColumns(client);
  return execute(db, "oauth_client_insert", text, [client.client_id, metadata, deviceGrant, now]);
}

/** Stores a client as its document currently describes it. */
export function upsertClient(db: Db, client: ClientDocument, now: Date) {
  const text = `insert into oauth_clients (id, metadata, device_grant, registered_at, last_used_at)
    values ($1, $2, $3, $4, $4)
    on conflict (id) do update set metadata = excluded.metadata, device_grant = excluded.device_grant`;
  const { metadata, deviceGrant } = toColumns(client);
  return execute(db, "oauth_client_upsert", text, [client.client_id, metadata, deviceGrant, now]);
}

export async function findClient(db: Db, id: string): Promise<ClientDocument | undefined> {
  const text = `select metadata, device_grant as "deviceGrant" from oauth_clients
    where id = $1 and deleted_at is null`;
  type Row = { metadata: ClientDocument; deviceGrant: boolean };
  const row = await one<Row>(db, "oauth_client_find", text, [id]);
  if (!row?.deviceGrant) return row?.metadata;
  return { ...row.metadata, grant_types: [...grantTypesOf(row.metadata), DEVICE_GRANT] };
}

// The device grant has a column of its own, as versions that do not know it refuse clients that name it.
function toColumns(client: ClientDocument): { metadata: ClientDocument; deviceGrant: boolean } {
  const grantTypes = grantTypesOf(client);
  const grant_types = grantTypes.filter((type) => type !== DEVICE_GRANT);
  return { metadata: { ...client, grant_types }, deviceGrant: grantTypes.includes(DEVICE_GRANT) };
}

function grantTypesOf({ grant_types: types }: ClientDocument): string[] {
  return Array.isArray(types) ? types : [];
}

/** Records that a user authorized the client, and unmarks it if it was to be deleted. */
export function authorizeClient(db: Db, id: string, now: Date) {
  const text = `update oauth_clients
    set authorized_at = coalesce(authorized_at, $2), last_used_at = $2, deleted_at = null where id = $1`;
  return execute(db, "oauth_client_authorize", text, [id, now]);
}

export function deleteClient(db: Db, id: string) {
  return execute(db, "oauth_client_delete", "delete from oauth_clients where id = $1", [id]);
}

export function markClient(db: Db, id: string, now: Date) {
  return execute(db, "oauth_client_mark", "update oauth_clients set deleted_at = $2 where id = $1", [
    id,
    now,
  ]);
}

/** Marks the oldest clients that no user has authorized, beyond the newest `keep`; returns how many. */
export function markBeyond(db: Db, limits: { keep: number; batch: number }, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_beyond",
    `update oauth_clients set deleted_at = $1 where id = any(array(
       select id from oauth_clients where authorized_at is null and deleted_at is null
         and (registered_at, id) <= (
           select registered_at, id from oauth_clients where authorized_at is null and deleted_at is null
           order by registered_at desc, id desc offset $2 limit 1)
       order by registered_at, id limit $3 for update skip locked))`,
    [now, limits.keep, limits.batch],
  );
}

/** Marks clients that no user has authorized within a day; returns how many. */
export function markNeverAuthorized(db: Db, batch: number, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_never_authorized",
    `update oauth_clients set deleted_at = $1 where id = any(array(
       select id from oauth_clients where authorized_at is null and deleted_at is null
         and registered_at < $1::timestamptz - interval '24 hours'
       order by registered_at limit $2 for update skip locked))`,
    [now, batch],
  );
}

/** Marks clients without a grant that have used no token for 90 days; returns how many. */
export function markIdle(db: Db, batch: number, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_idle",
    `update oauth_clients set deleted_at = $1 where id = any(array(
       select c.id from oauth_clients c where c.authorized_at is not null and c.deleted_at is null
         and c.last_used_at < $1::timestamptz - interval '90 days'
         and not exists (select from oauth_grants g where g.client_id = c.id and g.revoked_at is null
           and g.expires_at > $1)
       order by c.last_used_at limit $2 for update skip locked))`,
    [now, batch],
  );
}

/** Returns marked clients but for these, those that have waited longest first. */
export async function listMarked(db: Db, except: string[], batch: number): Promise<string[]> {
  const text = `select id from oauth_clients where deleted_at is not null and id <> all($1)
    order by deleted_at, id limit $2`;
  const rows = await many<{ id: string }>(db, "oauth_clients_marked", text, [except, batch]);
  return rows.map(({ id }) => id);
}

/** Has a client that could not be deleted wait behind the others, if it is still marked. */
export function postponeMarked(db: Db, id: string, now: Date) {
  const text = "update oauth_clients set deleted_at = $2 where id = $1 and deleted_at is not null";
  return execute(db, "oauth_client_postpone", text, [id, now]);
}

/** Deletes those of these clients that are still marked. */
export function deleteMarked(db: Db, ids: string[]) {
  const text = "delete from oauth_clients where id = any($1) and deleted_at is not null";
  return execute(db, "oauth_clients_delete", text, [ids]);
}
