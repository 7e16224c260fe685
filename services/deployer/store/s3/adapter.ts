import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Client, type ClientOptions } from "minio";
import { retry } from "../../../kit/concurrency/retry.ts";
import { checkKey } from "../key.ts";
import { type ObjectStat, type ObjectStore, ObjectStoreError } from "../port.ts";

export type S3StoreOptions = {
  /** The address for this process and for builds: `http(s)://host[:port]`. */
  endpoint: string;
  /** The address for users, with which upload URLs begin; defaults to `endpoint`. */
  publicEndpoint?: string;
  bucket: string;
  region: string;
  accessKey: string;
  secretKey: string;
  log: { info(object: object, message: string): void; warn(object: object, message: string): void };
};

export type S3Store = ObjectStore & {
  /** Creates the bucket if there is none; waits up to a minute for a store that is unreachable. */
  start(): Promise<void>;
  /** Returns a URL at `endpoint` with which a build can read this one object until it expires. */
  presignGet(key: string, expiresInSeconds: number): Promise<string>;
  /** Begins an object whose parts others send, by PUT to these URLs at `endpoint`, in order; as many as it takes. */
  beginParts(key: string, contentType: string, terms: PartTerms): Promise<PartsUpload>;
  /** Makes the object of the parts that were sent. Throws when there are not as many as this. */
  completeParts(key: string, id: string, parts: number): Promise<void>;
  /** Removes what was sent of an object that was begun. Idempotent. */
  abortParts(key: string, id: string): Promise<void>;
};

/** At most how many parts, and how long their URLs are valid. */
export type PartTerms = { most: number; expiresInSeconds: number };
export type PartsUpload = { id: string; urls: string[] };

const START_MS = 60_000;
/** The most that S3 accepts in one request; a put is a single request, so that it is atomic. */
const PUT_BYTES = 5 * 1024 ** 3;
/**
 * Ends each object's name, and never occurs in a key: stores that keep objects as files cannot hold both `a` and `a/b`.
 */
export const SUFFIX = "~";

/** Removes all objects of a bucket whose names begin so, whoever wrote them. */
export async function removeAll(
  options: Pick<S3StoreOptions, "endpoint" | "bucket" | "region" | "accessKey" | "secretKey">,
  prefix: string,
): Promise<void> {
  const client = new Client(clientOptions(options, options.endpoint));
  const names: string[] = [];
  for await (const { name } of client.listObjectsV2(options.bucket, prefix, true)) if (name) names.push(name);
  await removeNamed(client, options.bucket, names);
}

async function removeNamed(client: Client, bucket: string, names: string[]): Promise<void> {
  for (const result of names.length === 0 ? [] : await client.removeObjects(bucket, names)) {
    // The client's types describe removed objects; its results are the failures.
    const refused = (result as { Error?: { Code?: string; Key?: string } } | null)?.Error;
    if (refused && refused.Code !== "NoSuchKey")
      throw new Error(`the object store did not remove ${refused.Key}: ${refused.Code}`);
  }
}

/** Stores objects in a bucket of any S3. Upload URLs bind neither type nor size: compare those of `stat`. */
export function createS3Store(options: S3StoreOptions): S3Store {
  const { bucket, region, log } = options;
  const internal = new Client(clientOptions(options, options.endpoint));
  const external = new Client(clientOptions(options, options.publicEndpoint ?? options.endpoint));
  const nameOf = (key: string) => `${checkKey(key)}${SUFFIX}`;

  async function stat(key: string): Promise<ObjectStat | undefined> {
    const found = await undefinedIfMissing(internal.statObject(bucket, nameOf(key)));
    if (!found) return undefined;
    const contentType = String(found.metaData["content-type"] ?? "");
    return { size: found.size, contentType, lastModified: found.lastModified, digest: found.etag };
  }

  /** Removes the objects under a prefix, or those of them older than a time; returns how many. */
  async function removeListed(prefix: string, olderThan?: Date): Promise<number> {
    const names: string[] = [];
    for await (const { name, lastModified } of internal.listObjectsV2(bucket, prefix, true)) {
      const old = olderThan === undefined || (lastModified !== undefined && lastModified < olderThan);
      if (name?.endsWith(SUFFIX) && old) names.push(name);
    }
    await removeNamed(internal, bucket, names);
    return names.length;
  }

  /** Removes the parts of objects under a prefix that were begun and not completed. */
  async function abortUnder(prefix: string): Promise<void> {
    for await (const { key, uploadId } of internal.listIncompleteUploads(bucket, prefix, true))
      await undefinedIfMissing(internal.abortMultipartUpload(bucket, key, uploadId));
  }

  async function createBucket(): Promise<void> {
    if (await internal.bucketExists(bucket)) return;
    try {
      await internal.makeBucket(bucket, region);
      log.info({ bucket }, "created the bucket");
    } catch (error) {
      if (codeOf(error) !== "BucketAlreadyOwnedByYou") throw error; // another process created it first
    }
  }

  return {
    stat,
    async start() {
      await retry(createBucket, {
        everyMs: 1_000,
        forMs: START_MS,
        retryIf: (error) => !/AccessDenied|InvalidAccessKeyId|Signature/.test(codeOf(error)),
        failed: (error) => log.warn({ err: error, bucket }, "the object store cannot be reached yet"),
      });
      await allowBrowsers(internal, options).catch((error) =>
        log.info({ bucket, code: codeOf(error) }, "the object store does not support CORS rules"),
      );
    },
    async presignPut(key, { contentType, expiresInSeconds }) {
      const url = await external.presignedPutObject(bucket, nameOf(key), expiresInSeconds);
      return { url, method: "PUT", contentType };
    },
    presignDownload: async (key, { fileName, expiresInSeconds }) =>
      external.presignedGetObject(bucket, nameOf(key), expiresInSeconds, {
        "response-content-disposition": `attachment; filename="${fileName}"`,
      }),
    presignGet: async (key, expiresInSeconds) =>
      internal.presignedGetObject(bucket, nameOf(key), expiresInSeconds),
    async beginParts(key, contentType, { most, expiresInSeconds }) {
      const name = nameOf(key);
      const id = await internal.initiateNewMultipartUpload(bucket, name, { "Content-Type": contentType });
      const urlOf = (_: unknown, at: number) =>
        internal.presignedUrl("PUT", bucket, name, expiresInSeconds, {
          uploadId: id,
          partNumber: String(at + 1),
        });
      return { id, urls: await Promise.all(Array.from({ length: most }, urlOf)) };
    },
    async completeParts(key, id, parts) {
      // biome-ignore lint/complexity/useLiteralKeys: only so is it accessible; the client has no other way to list parts.
      const sent = await internal["listParts"](bucket, nameOf(key), id);
      if (sent.length !== parts) throw new Error(`of ${parts} parts, the object store has ${sent.length}`);
      await internal.completeMultipartUpload(bucket, nameOf(key), id, sent);
    },
    async abortParts(key, id) {
      await undefinedIfMissing(internal.abortMultipartUpload(bucket, nameOf(key), id));
    },
    async get(key, digest) {
      const found = await undefinedIfMissing(internal.getObject(bucket, nameOf(key)));
      if (!found) throw new ObjectStoreError("object_not_found", `There is no object ${key}.`);
      const etag = (found as IncomingMessage).headers.etag?.replaceAll('"', "");
      if (digest === undefined || etag === digest) return found;
      found.destroy();
      throw new ObjectStoreError("object_changed", `The object ${key} has changed.`);
    },
    async put(key, body, contentType) {
      const name = nameOf(key);
      // Read completely before it is sent, so that a failing source changes nothing. Uploads do not use this.
      const whole = Buffer.isBuffer(body) ? body : Buffer.concat(await body.toArray());
      await internal.putObject(bucket, name, whole, whole.length, { "Content-Type": contentType });
    },
    async move(from, to) {
      // Without the object's data on the way. Its largest size is that of one PUT, as an upload has it too.
      const copied = await undefinedIfMissing(
        internal.copyObject(bucket, nameOf(to), `/${bucket}/${nameOf(from)}`),
      );
      if (!copied) throw new ObjectStoreError("object_not_found", `There is no object ${from}.`);
      await undefinedIfMissing(internal.removeObject(bucket, nameOf(from)));
    },
    async remove(key) {
      await undefinedIfMissing(internal.removeObject(bucket, nameOf(key)));
    },
    async removePrefix(prefix) {
      // Some keys may not list them: what is left then, the bucket's own rules remove.
      await abortUnder(prefix).catch((error) =>
        log.warn({ bucket, code: codeOf(error) }, "parts of unfinished objects are left in the object store"),
      );
      await removeListed(prefix);
    },
    sweep: (olderThan, prefix) => removeListed(prefix, olderThan),
  };
}

/** Returns how the client of an S3 server connects. */
export function clientOptions(
  { accessKey, secretKey, region }: Pick<S3StoreOptions, "accessKey" | "secretKey" | "region">,
  endpoint: string,
): ClientOptions {
  const { protocol, hostname, port } = new URL(endpoint);
  const useSSL = protocol === "https:";
  return {
    endPoint: hostname,
    port: port === "" ? (useSSL ? 443 : 80) : Number(port),
    useSSL,
    accessKey,
    secretKey,
    region,
    pathStyle: true,
    partSize: PUT_BYTES,
  };
}

/** Allows pages of any origin to upload: the signed URL limits what they can do. */
async function allowBrowsers(client: Client, { bucket }: S3StoreOptions): Promise<void> {
  const rule =
    "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader>";
  const rules = `<CORSConfiguration><CORSRule>${rule}</CORSRule></CORSConfiguration>`;
  const answer = await client.makeRequestAsync(
    { method: "PUT", bucketName: bucket, query: "cors", headers: { "Content-MD5": md5(rules) } },
    rules,
    [200, 204],
  );
  answer.resume();
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("base64");
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown })?.code ?? "");
}

/** Resolves with undefined when S3 says that there is no such object. */
async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (["NoSuchKey", "NoSuchUpload", "NotFound"].includes(codeOf(error))) return undefined;
    throw error;
  }
}
