import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

// Images that builds pushed, and the accounts that they belong to.

/** SQL of the digest at an artifact's end. The expression is that of the index on it. */
export const digestOf = (column: string) => `substring(${column} from '@(sha256:[0-9a-f]{64})$')`;

/** Returns whether a build of the account pushed an image, which then cannot be removed until the transaction ends. */
export async function holdBuiltImage(db: Db, accountId: string, digest: string): Promise<boolean> {
  const found = await many(
    db,
    "image_hold",
    "select from built_images where account_id = $1 and digest = $2 for key share",
    [accountId, digest],
  );
  return found.length > 0;
}

/** Locks an image of the service's account against new uses. Returns the service whose build pushed it. */
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
 * Returns whether a deployment of the account that has not failed needs an artifact: any except `deploymentId`, or
 * without it any of another service. Services that are being deleted need nothing, so those deleted together do
 * not retain each other's images.
 */
export async function artifactInUse(
  db: Db,
  serviceId: string,
  artifact: string,
  deploymentId: string | undefined,
) {
  const found = await many(
    db,
    "artifact_in_use",
    `select from deployments d join services s on s.id = d.service_id
     where s.account_id = (select account_id from services where id = $1) and s.deleting_at is null
       and (d.artifact = $2 and d.service_id = $1 or ${digestOf("d.artifact")} = ${digestOf("$2::text")})
       and d.status not in ('failed', 'superseded')
       and case when $3::text is null then d.service_id <> $1 else d.id <> $3 end limit 1`,
    [serviceId, artifact, deploymentId],
  );
  return found.length > 0;
}

/** Forgets that a build of the service's account pushed an image: nobody can deploy it from then on. */
export function deleteBuiltImage(db: Db, serviceId: string, artifact: string) {
  return execute(
    db,
    "image_forget",
    `delete from built_images b using services s
     where s.id = $1 and s.account_id = b.account_id and b.digest = ${digestOf("$2::text")}`,
    [serviceId, artifact],
  );
}
