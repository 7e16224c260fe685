import { createDiskStore } from "../../../services/deployer/store/disk/adapter.ts";
import { ObjectStoreError } from "../../../services/deployer/store/port.ts";
import { SUFFIX } from "../../../services/deployer/store/s3/adapter.ts";
import { createLog } from "../../../services/kit/log.ts";
import type { Objects } from "../../backup/bucket.ts";

/** Returns the uploads of a data folder, by the names that they have in an S3: a backup is restored to either. */
export function openUploads(folder: string): Objects {
  const log = createLog("backup", "error");
  // It signs no URL.
  const store = createDiskStore({ folder, baseUrl: "", secrets: ["none"], log });
  const keyOf = (path: string) => path.slice(0, -SUFFIX.length);
  async function find(path: string) {
    const found = await store.stat(keyOf(path));
    if (!found) throw new ObjectStoreError("object_not_found", `There is no upload ${path}.`);
    return found;
  }
  return {
    put: (path, body, { type = "application/octet-stream" } = {}) => store.put(keyOf(path), body, type),
    get: (path) => store.get(keyOf(path)),
    async make() {},
    async stat(path) {
      const { size, contentType } = await find(path);
      return { size, type: contentType };
    },
    async list(prefix) {
      const found = [];
      for (const key of await store.keys(prefix)) {
        const one = await store.stat(key);
        if (!one) continue; // removed meanwhile
        const { size, digest, lastModified } = one;
        found.push({ path: key + SUFFIX, size, etag: digest ?? `${size}-${lastModified.getTime()}` });
      }
      return found;
    },
    async remove(paths) {
      for (const path of paths) await store.remove(keyOf(path));
    },
  };
}
