import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { Client } from "minio";
import { clientOptions } from "../../services/deployer/store/s3/adapter.ts";
import { linesOf } from "../../services/kit/lines-of.ts";

/** Objects by their paths. */
export type Objects = {
  put(path: string, body: Readable | Buffer, more?: { size?: number; type?: string }): Promise<void>;
  get(path: string): Promise<Readable>;
  /** Makes the place where they are if there is none. */
  make(): Promise<void>;
  /** `type` is "" where none is kept. */
  stat(path: string): Promise<{ size: number; type: string }>;
  /** Returns the objects below a folder (`""`: all), with paths as the other functions take them. */
  list(folder: string): Promise<{ path: string; size: number; etag: string }[]>;
  remove(paths: string[]): Promise<void>;
};

/** Where backups are: objects, and what they hold. */
export type Bucket = ReturnType<typeof withLines>;

type BucketOptions = {
  endpoint: string;
  region: string;
  bucket: string;
  accessKey: string;
  secretKey: string;
  /** What the name of every object begins with: a folder, or "" for none. */
  prefix: string;
};

/** What is sent at once of an object whose size is not known; at most 10 000 of these are an object. */
const PART_BYTES = 16 * 1024 ** 2;

/** Returns a client of one folder of a bucket. */
export function openBucket(options: BucketOptions): Bucket {
  const { region, bucket, prefix } = options;
  const client = new Client({ ...clientOptions(options, options.endpoint), partSize: PART_BYTES });
  const nameOf = (path: string) => (prefix ? `${prefix}/${path}` : path);

  async function put(path: string, body: Readable | Buffer, more: { size?: number; type?: string } = {}) {
    const headers = { "Content-Type": more.type ?? "application/octet-stream" };
    const send = (what: Readable | Buffer) =>
      client.putObject(bucket, nameOf(path), what, more.size, headers);
    if (Buffer.isBuffer(body)) return void (await send(body));
    // The client does not notice that a source fails, and would wait for ever.
    const through = new PassThrough();
    await Promise.all([pipeline(body, through), send(through)]);
  }
  const get = (path: string): Promise<Readable> => client.getObject(bucket, nameOf(path));

  return withLines({
    put,
    get,
    async make() {
      if (!(await client.bucketExists(bucket))) await client.makeBucket(bucket, region);
    },
    async stat(path) {
      const { size, metaData } = await client.statObject(bucket, nameOf(path));
      return { size, type: String(metaData["content-type"] ?? "") };
    },
    async list(folder) {
      const found = [];
      for await (const { name, size, etag } of client.listObjectsV2(bucket, nameOf(folder), true))
        if (name) found.push({ path: name.slice(nameOf("").length), size: size ?? 0, etag: etag ?? "" });
      return found;
    },
    async remove(paths) {
      for (const path of paths) await client.removeObject(bucket, nameOf(path));
    },
  });
}

/** Adds what backups are written in: lines and JSON. */
export function withLines(objects: Objects) {
  const { put, get } = objects;
  return {
    ...objects,
    /** Writes lines as they come, compressed. */
    async putLines(path: string, lines: AsyncIterable<string>): Promise<void> {
      const gzip = createGzip();
      const ended = async function* () {
        for await (const line of lines) yield `${line}\n`;
      };
      await Promise.all([pipeline(ended(), gzip), put(path, gzip, { type: "application/gzip" })]);
    },
    /** Reads what `putLines` wrote. */
    async *lines(path: string): AsyncGenerator<string> {
      const gunzip = createGunzip();
      // A failure ends the reading below, too.
      pipeline(await get(path), gunzip).catch(() => {});
      yield* linesOf(gunzip);
    },
    async putJson(path: string, value: unknown): Promise<void> {
      const body = Buffer.from(JSON.stringify(value, undefined, 2));
      await put(path, body, { size: body.length, type: "application/json" });
    },
    async getJson<T>(path: string): Promise<T> {
      return JSON.parse(Buffer.concat(await (await get(path)).toArray()).toString()) as T;
    },
  };
}
