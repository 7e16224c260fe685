// Statements on the keys that managed addons publish.
import { type Db, execute, many } from "../../kit/postgres/db.ts";

export type NewAddonKey = { key: string; sensitive: boolean; sealed: Buffer; size: number };

/** Replaces all keys of an addon. */
export async function replaceAddonKeys(db: Db, serviceId: string, keys: NewAddonKey[]): Promise<void> {
  await execute(
    db,
    "addon_keys_replace",
    `with old as (delete from addon_keys where service_id = $1 and key <> all($2::text[]))
     insert into addon_keys (service_id, key, sensitive, sealed, size)
     select $1, * from unnest($2::text[], $3::bool[], $4::bytea[], $5::int[])
     on conflict (service_id, key) do update
       set sensitive = excluded.sensitive, sealed = excluded.sealed, size = excluded.size`,
    [
      serviceId,
      keys.map((row) => row.key),
      keys.map((row) => row.sensitive),
      keys.map((row) => row.sealed),
      keys.map((row) => row.size),
    ],
  );
}

/** A service of an environment and one of its published keys, or null members when it has none. */
export type AddonKeyRow = {
  environmentId: string;
  name: string;
  serviceId: string;
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  ready: boolean;
  key: string | null;
  sensitive: boolean | null;
  size: number | null;
  sealed: Buffer | null;
};

/** Lists the named services of environments, with their keys. */
export function listAddonKeys(db: Db, environmentIds: string[], names: string[]) {
  return many<AddonKeyRow>(
    db,
    "addon_keys_list",
    `select s.parent_id as "environmentId", s.name, s.id as "serviceId", s.type, s.ready,
       k.key, k.sensitive, k.size, k.sealed
     from scopes s left join addon_keys k on k.service_id = s.id
     where s.parent_id = any($1) and s.name = any($2) and s.deleted_at is null`,
    [environmentIds, names],
  );
}
