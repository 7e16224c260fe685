import type { Readable } from "node:stream";

/**
 * The port to the object store, shaped for S3: whole objects under keys, never changed in place. A key has 1–200
 * characters: segments of `[A-Za-z0-9._-]`, separated by `/`, none beginning with a dot.
 */

export type UploadTerms = {
  /** The exact Content-Type the upload must send. */
  contentType: string;
  maxBytes: number;
  expiresInSeconds: number;
  /** The account, whose concurrent uploads the disk store limits. */
  owner?: string;
};

export type UploadTarget = {
  url: string;
  method: "PUT";
  contentType: string;
};

export type DownloadTerms = {
  /** Of `[A-Za-z0-9._-]`. */
  fileName: string;
  expiresInSeconds: number;
  /** The account, whose concurrent downloads the disk store limits. */
  owner?: string;
};

export type ObjectStat = {
  size: number;
  contentType: string;
  lastModified: Date;
  /** Differs for different bytes; absent when the store has none. */
  digest?: string;
};

export type ObjectStore = {
  /** Returns a URL with which anyone can upload this one object until it expires. */
  presignPut(key: string, terms: UploadTerms): Promise<UploadTarget>;
  /** Returns a URL with which anyone can download this one object, as a file of this name, until it expires. */
  presignDownload(key: string, terms: DownloadTerms): Promise<string>;
  /** Returns undefined when there is no such object. An upload is visible only once it is complete. */
  stat(key: string): Promise<ObjectStat | undefined>;
  /** Throws `ObjectStoreError` `object_not_found`, or `object_changed` when the digest is another. */
  get(key: string, digest?: string): Promise<Readable>;
  /** From now on refuses uploads to this object; absent when the store cannot. Idempotent. */
  freeze?(key: string): Promise<void>;
  /** Writes an object, and replaces an earlier one atomically. */
  put(key: string, body: Readable | Buffer, contentType: string): Promise<void>;
  /**
   * Moves an object to another key, to which no signed URL leads: from then on nobody replaces it. Throws `ObjectStoreError`
   * `object_not_found`. Interrupted, it may be at both.
   */
  move(from: string, to: string): Promise<void>;
  /** Idempotent. */
  remove(key: string): Promise<void>;
  /** Removes every object whose key begins with `prefix` (a string, as in S3, not a folder). */
  removePrefix(prefix: string): Promise<void>;
  /** Removes every object under `prefix` last written before `olderThan`; returns how many. */
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
