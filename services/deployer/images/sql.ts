import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

// Images that builds pushed: whose they are, and until when they are kept.

/** The digest that an artifact ends with, as in the index on it. */
export const digestOf = (column: string) => `substring(${column} from '@(sha256:[0-9a-f]{64})$')`;

/** Whether a build of the account pushed this image; then it is kept until the transaction ends. */
export async function holdBuiltImage(db: Db, accountId: string, digest: string): Promise<boolean> {
  const found = await many(
    db,
    "image_hold",
    "select from built_images where account_id = $1 and digest = $2 for key share",
    [accountId, digest],
  );
  return found.length > 0;
}

/** Whose build pushed an image of the service's account; locks it against new users. */
export function lockBuiltImage(db: Db, serviceId: string, artifact: string) {
  return one<{ serviceId: string }>(
    db,
    "image_lock",
    `select b.service_id as "serviceId" from built_images b join services s on s.account_id = b.account_id
     where s.id = $1 and b.digest = ${digestOf("$2::text")} for update of b`,
    [serviceId, artifact],
  );
}

/**
 * Whether a deployment of the account, live or to be, needs an artifact: any but this one, or without one any
 * of another service. Services that are being deleted need nothing: those that go together keep nothing alive.
 */
export async function artifactInUse(db: Db, serviceId: string, artifact: string, but: string | undefined) {
  const found = await many(
    db,
    "artifact_in_use",
    `select from deployments d join services s on s.id = d.service_id
     where s.account_id = (select account_id from services where id = $1) and s.deleting_at is null
       and (d.artifact = $2 and d.service_id = $1 or ${digestOf("d.artifact")} = ${digestOf("$2::text")})
       and d.status not in ('failed', 'superseded')
       and case when $3::text is null then d.service_id <> $1 else d.id <> $3 end limit 1`,
    [serviceId, artifact, but],
  );
  return found.length > 0;
}

/** Nobody can come to use it from now on. */
export function deleteBuiltImage(db: Db, serviceId: string, artifact: string) {
  return execute(
    db,
    "image_forget",
    `delete from built_images b using services s
     where s.id = $1 and s.account_id = b.account_id and b.digest = ${digestOf("$2::text")}`,
    [serviceId, artifact],
  );
}
