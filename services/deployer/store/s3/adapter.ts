import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Client, type ClientOptions } from "minio";
import { retry } from "../../../kit/retry.ts";
import { checkedKey } from "../key.ts";
import { type ObjectStat, type ObjectStore, ObjectStoreError } from "../port.ts";

export type S3StoreOptions = {
  /** Where this process and builds reach the store: `http(s)://host[:port]`. */
  endpoint: string;
  /** Where users reach it; upload URLs begin with it. Without one it is `endpoint`. */
  publicEndpoint?: string;
  bucket: string;
  region: string;
  accessKey: string;
  secretKey: string;
  log: { info(object: object, message: string): void; warn(object: object, message: string): void };
};

export type S3Store = ObjectStore & {
  /** Makes the bucket when it is not there; waits up to a minute for a store that is away. */
  start(): Promise<void>;
  /** A URL at `endpoint` under which a build may read this one object until it expires. */
  presignGet(key: string, expiresInSeconds: number): Promise<string>;
};

const START_MS = 60_000;
/** S3 takes at most this in one request, and one request is what makes a put one step. */
const PUT_BYTES = 5 * 1024 ** 3;
/**
 * Stands at the end of each object's name and in no key: stores that keep objects as files cannot hold both
 * `a` and `a/b`.
 */
const END = "~";

/** Objects in a bucket of any S3. Upload URLs bind neither type nor size: `stat` tells both. */
export function createS3Store(options: S3StoreOptions): S3Store {
  const { bucket, region, log } = options;
  const inside = new Client(clientOptions(options, options.endpoint));
  const outside = new Client(clientOptions(options, options.publicEndpoint ?? options.endpoint));
  const nameOf = (key: string) => `${checkedKey(key)}${END}`;

  async function stat(key: string): Promise<ObjectStat | undefined> {
    const found = await orNothing(inside.statObject(bucket, nameOf(key)));
    if (!found) return undefined;
    const contentType = String(found.metaData["content-type"] ?? "");
    return { size: found.size, contentType, lastModified: found.lastModified, digest: found.etag };
  }

  /** Removes what lies under a prefix and is older than the time, if one is given; gives how many. */
  async function removeListed(prefix: string, olderThan?: Date): Promise<number> {
    const names: string[] = [];
    for await (const { name, lastModified } of inside.listObjectsV2(bucket, prefix, true)) {
      const old = olderThan === undefined || (lastModified !== undefined && lastModified < olderThan);
      if (name?.endsWith(END) && old) names.push(name);
    }
    for (const result of names.length === 0 ? [] : await inside.removeObjects(bucket, names)) {
      // The client types what is removed, and gives what could not be.
      const refused = (result as { Error?: { Code?: string; Key?: string } } | null)?.Error;
      if (refused && refused.Code !== "NoSuchKey")
        throw new Error(`the store did not remove ${refused.Key}: ${refused.Code}`);
    }
    return names.length;
  }

  async function makeBucket(): Promise<void> {
    if (await inside.bucketExists(bucket)) return;
    try {
      await inside.makeBucket(bucket, region);
      log.info({ bucket }, "made the bucket");
    } catch (error) {
      if (codeOf(error) !== "BucketAlreadyOwnedByYou") throw error; // another process was quicker
    }
  }

  return {
    stat,
    async start() {
      await retry(makeBucket, {
        everyMs: 1_000,
        forMs: START_MS,
        retryIf: (error) => !/AccessDenied|InvalidAccessKeyId|Signature/.test(codeOf(error)),
        failed: (error) => log.warn({ err: error, bucket }, "the object store is not there yet"),
      });
      await allowBrowsers(inside, options).catch((error) =>
        log.info({ bucket, code: codeOf(error) }, "the object store takes no CORS rules"),
      );
    },
    async presignPut(key, { contentType, expiresInSeconds }) {
      const url = await outside.presignedPutObject(bucket, nameOf(key), expiresInSeconds);
      return { url, method: "PUT", contentType };
    },
    presignGet: async (key, expiresInSeconds) =>
      inside.presignedGetObject(bucket, nameOf(key), expiresInSeconds),
    async get(key, digest) {
      const found = await orNothing(inside.getObject(bucket, nameOf(key)));
      if (!found) throw new ObjectStoreError("object_not_found", `There is no object ${key}.`);
      const etag = (found as IncomingMessage).headers.etag?.replaceAll('"', "");
      if (digest === undefined || etag === digest) return found;
      found.destroy();
      throw new ObjectStoreError("object_changed", `The object ${key} is another one now.`);
    },
    async put(key, body, contentType) {
      const name = nameOf(key);
      // Whole before it is sent, so that a source that breaks changes nothing. Uploads do not come this way.
      const whole = Buffer.isBuffer(body) ? body : Buffer.concat(await body.toArray());
      await inside.putObject(bucket, name, whole, whole.length, { "Content-Type": contentType });
    },
    async remove(key) {
      await orNothing(inside.removeObject(bucket, nameOf(key)));
    },
    async removePrefix(prefix) {
      await removeListed(prefix);
    },
    sweep: (olderThan, prefix) => removeListed(prefix, olderThan),
  };
}

function clientOptions({ accessKey, secretKey, region }: S3StoreOptions, endpoint: string): ClientOptions {
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

/** Lets pages of any origin upload: what they may do is what a signed URL says. */
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

async function orNothing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (["NoSuchKey", "NotFound"].includes(codeOf(error))) return undefined;
    throw error;
  }
}
