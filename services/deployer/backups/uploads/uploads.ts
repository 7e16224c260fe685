import { once } from "node:events";
import { tryEach } from "../../../kit/concurrency/try-each.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { invalid } from "../../../kit/rpc/refusals.ts";
import { dumpPrefix } from "../../secrets.ts";
import { type ObjectStore, ObjectStoreError } from "../../store/port.ts";
import type { AddonType } from "../../terms/services.ts";
import { backupRunning } from "../refusals.ts";
import { dumpProblem, HEADER_BYTES } from "./dump-header.ts";
import { beginTaking, deleteUpload, endTaking, isOpen, listLeftUploads } from "./sql.ts";

/** The most that S3 takes in one PUT. */
export const MOST_UPLOAD_BYTES = 5 * 1024 ** 3;
export const UPLOAD_TYPE = "application/octet-stream";

type Deps = { pool: Pool; store: Pick<ObjectStore, "stat" | "get" | "move" | "remove"> };

/** Returns the key to which a dump is uploaded. */
export const uploadKey = (serviceId: string, id: string) => `${dumpPrefix(serviceId)}${id}`;

/** Returns the key of the backup that it becomes, to which no URL of an upload leads. */
const backupKey = (serviceId: string, id: string) => `backups/${serviceId}/${id}.upload`;

/**
 * Takes a dump that was uploaded, so that nobody replaces it, and checks it. Returns its key and size; undefined when there
 * is no such upload of the addon. Throws 409 while another request does, and 422 for one that is no dump: that upload is
 * over. Can be repeated.
 */
export async function takeUpload(
  deps: Deps,
  addon: { id: string; type: AddonType },
  id: string,
): Promise<{ object: string; sizeBytes: number } | undefined> {
  const { pool } = deps;
  if (!(await isOpen(pool, addon.id, id))) return undefined;
  if ((await beginTaking(pool, id)) === 0) throw backupRunning();
  try {
    return await moveAndCheck(deps, addon, id);
  } finally {
    await endTaking(pool, id);
  }
}

/** For whoever finds that there is no such upload, or no longer. */
export function uploadUnknown() {
  const message =
    "The addon has no such upload. Its time is over, it was refused, or a backup was made of it.";
  return invalid("upload", "upload_unknown", message);
}

async function moveAndCheck(
  { pool, store }: Deps,
  { id: serviceId, type }: { id: string; type: AddonType },
  id: string,
) {
  const object = backupKey(serviceId, id);
  if (!(await store.stat(object)))
    await store.move(uploadKey(serviceId, id), object).catch((error) => {
      if (!(error instanceof ObjectStoreError) || error.code !== "object_not_found") throw error;
    });
  const found = await store.stat(object);
  if (!found) throw invalid("upload", "upload_missing", "Nothing was uploaded yet.");
  const refusal = await refusalOf(type, found, () => headOf(store, object));
  if (!refusal) return { object, sizeBytes: found.size };
  await store.remove(object);
  await deleteUpload(pool, id);
  throw invalid("upload", refusal.reason, `${refusal.sentence} Begin another upload.`);
}

async function refusalOf(
  type: AddonType,
  { size, contentType }: { size: number; contentType: string },
  head: () => Promise<Buffer>,
) {
  // Signed URLs of S3 limit neither.
  if (size > MOST_UPLOAD_BYTES) return { reason: "upload_too_large", sentence: tooLarge };
  if (contentType !== UPLOAD_TYPE)
    return { reason: "upload_content_type", sentence: `Upload it with Content-Type ${UPLOAD_TYPE}.` };
  const problem = dumpProblem(type, await head());
  return problem === undefined ? undefined : { reason: "not_a_dump", sentence: problem };
}

export const tooLarge = `A dump has at most ${MOST_UPLOAD_BYTES / 1024 ** 3} GiB. Restore a larger one with pg_restore or redis-cli.`;

async function headOf(store: Deps["store"], key: string): Promise<Buffer> {
  const content = await store.get(key);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of content) {
      chunks.push(chunk as Buffer);
      if (chunks.reduce((sum, one) => sum + one.length, 0) >= HEADER_BYTES) break;
    }
  } finally {
    content.destroy();
    if (!content.closed) await once(content, "close").catch(() => {});
  }
  return Buffer.concat(chunks).subarray(0, HEADER_BYTES);
}

/** Removes uploads of which no backup was made, with their objects. One that cannot be removed holds up no others. */
export async function sweepUploads({ pool, store }: Deps): Promise<void> {
  await tryEach(await listLeftUploads(pool), async ({ id, serviceId }) => {
    // First: the row says where they are.
    await store.remove(uploadKey(serviceId, id));
    await store.remove(backupKey(serviceId, id));
    await deleteUpload(pool, id);
  });
}
