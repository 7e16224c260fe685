import type { EntitlementsOf } from "../../../kit/plans.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { invalid } from "../../../kit/rpc/refusals.ts";
import { findEntitlements } from "../../accounts/provisioning.ts";
import { refuseAddon } from "../../projects/require.ts";
import type { Secrets } from "../../secrets.ts";
import type { ObjectStore } from "../../store/port.ts";

/** Lifetime of an upload URL. */
export const UPLOAD_SECONDS = 900;
export const UPLOAD_TYPE = "application/gzip";
/** An uploaded archive can be deployed for this long. */
const UPLOAD_LIVES_MS = 24 * 3_600_000;
/** It is removed later, as a build may still be reading it. */
export const UPLOAD_SWEEP_MS = UPLOAD_LIVES_MS + 2 * 3_600_000;

/**
 * Returns the object key and the digest of an archive that can be deployed. Throws 422 for a reference of another
 * service, for an upload that is missing or too old, and for a wrong content type or size.
 */
export async function requireArchive(
  deps: { pool: Pool; secrets: Secrets; store: ObjectStore; entitlementsOf: EntitlementsOf },
  accountId: string,
  service: { id: string; type: string },
  ref: string,
) {
  const { pool, secrets, store, entitlementsOf } = deps;
  refuseAddon(service.type);
  const key = secrets.archiveKey(service.id, ref);
  if (!key) throw unusable("archive_ref_mismatch", "This archiveRef is not from an upload of this service.");
  const object = await store.stat(key);
  if (!object || object.lastModified.getTime() < Date.now() - UPLOAD_LIVES_MS)
    throw unusable("archive_not_uploaded", "Nothing was uploaded within the last 24 hours.");
  if (object.contentType !== UPLOAD_TYPE)
    throw unusable("archive_content_type", `Upload the archive with Content-Type ${UPLOAD_TYPE}.`);
  // Signed S3 URLs cannot limit the size of an upload.
  const { uploadBytes } = await findEntitlements(pool, entitlementsOf, accountId);
  if (object.size > uploadBytes)
    throw unusable("archive_too_large", `The plan allows archives of up to ${uploadBytes / 1024 ** 2} MiB.`);
  return { key, digest: object.digest };
}

function unusable(reason: string, sentence: string) {
  return invalid("archiveRef", reason, sentence);
}
