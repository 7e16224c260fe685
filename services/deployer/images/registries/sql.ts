import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../../kit/postgres/db.ts";

/** How many registries an account has at most. */
export const MAX_REGISTRIES = 20;

export type RegistryRow = {
  id: string;
  host: string;
  user: string;
  createdAt: Timestamp;
  rotatedAt?: Timestamp;
};
type Of = { accountId: string; id: string };
type Login = { user?: string; sealed: Buffer };

const SHOWN = `id, host, username as "user", created_at as "createdAt", rotated_at as "rotatedAt"`;

/** Makes other transactions that store a registry of the account wait until this one ends. */
export async function lockRegistriesOf(tx: Tx, accountId: string): Promise<void> {
  const text = "select pg_advisory_xact_lock(hashtextextended('registries:' || $1, 0))";
  await execute(tx, "registries_lock", text, [accountId]);
}

export async function countRegistries(db: Db, accountId: string): Promise<number> {
  const text = "select count(*) as n from registries where account_id = $1";
  return (await one<{ n: number }>(db, "registries_count", text, [accountId]))!.n;
}

/** Stores a registry. Returns undefined when the account has one of this host. */
export function insertRegistry(db: Db, registry: Of & { host: string; user: string; sealed: Buffer }) {
  const { id, accountId, host, user, sealed } = registry;
  return one<RegistryRow>(
    db,
    "registry_insert",
    `insert into registries (id, account_id, host, username, token) values ($1, $2, $3, $4, $5)
     on conflict on constraint registries_host do nothing returning ${SHOWN}`,
    [id, accountId, host, user, sealed],
  );
}

export function listRegistries(db: Db, accountId: string, before: string | undefined, limit: number) {
  return many<RegistryRow>(
    db,
    "registries_list",
    `select ${SHOWN} from registries where account_id = $1 and ($2::text is null or id < $2)
     order by id desc limit $3`,
    [accountId, before, limit],
  );
}

export function getRegistry(db: Db, { accountId, id }: Of) {
  return one<RegistryRow>(
    db,
    "registry_get",
    `select ${SHOWN} from registries where account_id = $1 and id = $2`,
    [accountId, id],
  );
}

export function updateRegistry(db: Db, { accountId, id }: Of, { user, sealed }: Login) {
  return one<RegistryRow>(
    db,
    "registry_update",
    `update registries set username = coalesce($3, username), token = $4, rotated_at = now()
     where account_id = $1 and id = $2 returning ${SHOWN}`,
    [accountId, id, user, sealed],
  );
}

export function deleteRegistry(db: Db, { accountId, id }: Of) {
  return one<RegistryRow>(
    db,
    "registry_delete",
    `delete from registries where account_id = $1 and id = $2 returning ${SHOWN}`,
    [accountId, id],
  );
}

/** Deletes all registries of an account. */
export async function deleteRegistries(db: Db, accountId: string): Promise<void> {
  await execute(db, "registries_delete", "delete from registries where account_id = $1", [accountId]);
}

export type SealedLogin = { id: string; host: string; user: string; token: Buffer };
const SEALED = `r.id, r.host, r.username as "user", r.token`;

/** Returns an account's login for a host, as its images name it. */
export function findLogin(db: Db, accountId: string, host: string) {
  return one<SealedLogin>(
    db,
    "registry_login",
    `select ${SEALED} from registries r where r.account_id = $1 and r.host = $2`,
    [accountId, host],
  );
}

/** Returns the logins of the accounts of these environments. */
export function listLogins(db: Db, environmentIds: string[]) {
  return many<SealedLogin & { environmentIds: string[] }>(
    db,
    "registry_logins",
    `select ${SEALED}, array_agg(e.id) as "environmentIds"
     from environments e join registries r on r.account_id = e.account_id
     where e.id = any($1) group by r.id order by r.host`,
    [environmentIds],
  );
}
