// Statements on registered clients. One that is to be deleted is marked first, so that a deletion which also has to
// happen at the provider is finished whatever dies in between.
import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import type { ClientDocument } from "../port.ts";

export function insertClient(db: Db, client: ClientDocument, now: Date) {
  const text =
    "insert into oauth_clients (id, metadata, registered_at, last_used_at) values ($1, $2, $3, $3)";
  return execute(db, "oauth_client_insert", text, [client.client_id, client, now]);
}

/** Stores a client as a document describes it now. */
export function upsertClient(db: Db, client: ClientDocument, now: Date) {
  const text = `insert into oauth_clients (id, metadata, registered_at, last_used_at) values ($1, $2, $3, $3)
    on conflict (id) do update set metadata = excluded.metadata`;
  return execute(db, "oauth_client_upsert", text, [client.client_id, client, now]);
}

export async function findClient(db: Db, id: string): Promise<ClientDocument | undefined> {
  const text = "select metadata from oauth_clients where id = $1 and deleted_at is null";
  return (await one<{ metadata: ClientDocument }>(db, "oauth_client_find", text, [id]))?.metadata;
}

/** Notes that a user let the client in, and keeps it if it was about to be deleted. */
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

/** Marks the oldest of the clients that nobody let in, beyond the newest `keep`; returns how many. */
export function markBeyond(db: Db, limits: { keep: number; batch: number }, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_beyond",
    `update oauth_clients set deleted_at = $1 where id in (
       select id from oauth_clients where authorized_at is null and deleted_at is null
         and (registered_at, id) <= (
           select registered_at, id from oauth_clients where authorized_at is null and deleted_at is null
           order by registered_at desc, id desc offset $2 limit 1)
       order by registered_at, id limit $3 for update skip locked)`,
    [now, limits.keep, limits.batch],
  );
}

/** Marks clients that nobody let in for a day; returns how many. */
export function markNeverAuthorized(db: Db, batch: number, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_never_authorized",
    `update oauth_clients set deleted_at = $1 where id in (
       select id from oauth_clients where authorized_at is null and deleted_at is null
         and registered_at < $1::timestamptz - interval '24 hours'
       order by registered_at limit $2 for update skip locked)`,
    [now, batch],
  );
}

/** Marks clients without a grant that used no token for 90 days; returns how many. */
export function markIdle(db: Db, batch: number, now: Date) {
  return execute(
    db,
    "oauth_clients_mark_idle",
    `update oauth_clients set deleted_at = $1 where id in (
       select c.id from oauth_clients c where c.authorized_at is not null and c.deleted_at is null
         and c.last_used_at < $1::timestamptz - interval '90 days'
         and not exists (select from oauth_grants g where g.client_id = c.id and g.revoked_at is null
           and g.expires_at > $1)
       order by c.last_used_at limit $2 for update skip locked)`,
    [now, batch],
  );
}

export async function listMarked(db: Db, batch: number): Promise<string[]> {
  const text = "select id from oauth_clients where deleted_at is not null order by deleted_at limit $1";
  const rows = await many<{ id: string }>(db, "oauth_clients_marked", text, [batch]);
  return rows.map(({ id }) => id);
}

/** Deletes what is still marked of these clients. */
export function deleteMarked(db: Db, ids: string[]) {
  const text = "delete from oauth_clients where id = any($1) and deleted_at is not null";
  return execute(db, "oauth_clients_delete", text, [ids]);
}
