import { Unreachable } from "./errors.ts";
import type { Operations } from "./generated/api.ts";
import type { Backup } from "./generated/types.ts";
import type { ServiceAddress } from "./path.ts";
import { anyOf } from "./signals.ts";
import { type Archive, put, type UploadOptions } from "./upload.ts";

/** What is built on several operations of backups. */
export const backupHelpers = (api: Operations["backups"]) => ({
  /** Uploads a dump: what `pg_dump --format=custom` wrote, or an RDB file. Resolves to the backup that is made of it. */
  async upload(at: ServiceAddress, dump: Archive, options: UploadOptions = {}): Promise<Backup> {
    const { signal } = options;
    const blob = dump instanceof Blob ? dump : new Blob([dump]);
    const given = signal ? { signal } : {};
    const target = await api.createUpload(at, { sizeBytes: blob.size }, given);
    const { uploadUrl: url, contentType, upload, expiresInSeconds } = target;
    const late = AbortSignal.timeout(expiresInSeconds * 1_000);
    await put({ url, blob, contentType, ...options, signal: anyOf(signal, late) }).catch((error: unknown) => {
      if (signal?.aborted || !late.aborted) throw error;
      throw new Unreachable(`The upload took longer than ${expiresInSeconds} s.`, { cause: error });
    });
    return api.create(at, { upload }, given);
  },
});
