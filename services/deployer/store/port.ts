import type { Readable } from "node:stream";

/**
 * The port to the object store, shaped for S3: whole objects under keys, never changed in place.
 * A key is 1–200 characters: segments of `[A-Za-z0-9._-]`, parted by `/`, none beginning with a dot.
 */

export type UploadTerms = {
  /** The exact Content-Type the upload must send. */
  contentType: string;
  maxBytes: number;
  expiresInSeconds: number;
  /** The account: how much it uploads at once is limited where the store is ours. */
  owner?: string;
};

export type UploadTarget = {
  url: string;
  method: "PUT";
  contentType: string;
};

export type ObjectStat = {
  size: number;
  contentType: string;
  lastModified: Date;
  /** Another one for other bytes; absent where the store does not tell. */
  digest?: string;
};

export type ObjectStore = {
  /** A URL under which anyone may put this one object until it expires. */
  presignPut(key: string, terms: UploadTerms): Promise<UploadTarget>;
  /** Undefined when there is no such object. An upload is visible only once it is complete. */
  stat(key: string): Promise<ObjectStat | undefined>;
  /** Throws `ObjectStoreError` `object_not_found`, and `object_changed` when its digest is not the given one. */
  get(key: string, digest?: string): Promise<Readable>;
  /** Refuses further uploads to this object, where the store can. Idempotent. */
  freeze?(key: string): Promise<void>;
  /** Replaces what was there, in one step. */
  put(key: string, body: Readable | Buffer, contentType: string): Promise<void>;
  /** Idempotent. */
  remove(key: string): Promise<void>;
  /** Removes every object whose key begins with `prefix` (a string, as in S3, not a folder). */
  removePrefix(prefix: string): Promise<void>;
  /** Removes every object under `prefix` last written before `olderThan`; gives how many. */
  sweep(olderThan: Date, prefix: string): Promise<number>;
};

export type ObjectStoreErrorCode = "invalid_key" | "object_not_found" | "object_changed";

export class ObjectStoreError extends Error {
  readonly code: ObjectStoreErrorCode;
  constructor(code: ObjectStoreErrorCode, message: string) {
    super(message);
    this.name = "ObjectStoreError";
    this.code = code;
  }
}
