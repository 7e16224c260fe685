import { createHash, type Hash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import {
  chmod,
  type FileHandle,
  open,
  readdir,
  rename,
  rm,
  stat as statFile,
  unlink,
} from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { tryEach } from "../../../kit/concurrency/try-each.ts";
import { isAlive, startedOf } from "../../shared/process-tree.ts";
import { checkKey, isKey } from "../key.ts";
import { type ObjectStat, type ObjectStore, ObjectStoreError } from "../port.ts";
import { createDownloads, DOWNLOADS } from "./download-handler.ts";
import { signDownload, signGrant } from "./signed-url.ts";
import { Frozen, handleUpload, TooLarge } from "./upload-handler.ts";
import { createSlots, defaultUploadLimits, type UploadLimits } from "./upload-limits.ts";

type DiskStoreOptions = {
  folder: string;
  /** The beginning of upload URLs: `<baseUrl>/uploads/<key>?…`. */
  baseUrl: string;
  /** The first signs, and all verify: to rotate, put a new one in front. */
  secrets: readonly string[];
  limits?: UploadLimits;
  log: { warn(object: object, message: string): void };
};

export type DiskStore = ObjectStore & {
  /** Serves the signed URLs: PUT at `/uploads/<key>`. Answers every request. */
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
  /** Returns the keys that begin with `prefix`. */
  keys(prefix: string): Promise<string[]>;
};

/**
 * Stores objects as files of one folder. A file begins with the object's attributes, one line of JSON, so that content
 * and attributes appear together: it is written elsewhere, synced to the disk and renamed.
 */
export function createDiskStore(options: DiskStoreOptions): DiskStore {
  const objects = join(options.folder, "objects");
  const incoming = join(options.folder, "incoming");
  for (const folder of [objects, incoming]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  sweepIncoming(incoming);
  if (options.secrets.length === 0) throw new Error("the disk store needs a secret to sign upload URLs with");
  const pathOf = (key: string) => join(objects, fileName(key));

  async function write(
    key: string,
    body: AsyncIterable<Buffer>,
    contentType: string,
    maxBytes: number,
    replaces = false,
  ): Promise<void> {
    const path = pathOf(key);
    const checkFrozen = async () => {
      if (!replaces && (await isFrozen(path))) throw new Frozen();
    };
    await checkFrozen();
    const digest = createHash("sha256");
    const temporary = join(incoming, incomingName());
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(headerOf(contentType, NO_DIGEST));
      await file.writeFile(limitBytes(maxBytes, body, digest));
      await file.write(headerOf(contentType, digest.digest("hex")), 0, undefined, 0);
      await file.sync();
      await file.close();
      await checkFrozen();
      await rename(temporary, path);
      await syncFolder(objects);
    } catch (error) {
      await file.close().catch(() => {});
      await unlink(temporary).catch(() => {});
      throw error;
    }
  }

  async function stat(key: string): Promise<ObjectStat | undefined> {
    const file = await openObject(pathOf(key));
    if (!file) return undefined;
    try {
      const { size, mtime } = await file.stat();
      const { contentType, digest, length } = await readHeader(file);
      return { size: size - length, contentType, lastModified: mtime, ...(digest && { digest }) };
    } finally {
      await file.close();
    }
  }

  async function listKeys(prefix: string): Promise<string[]> {
    const keys = (await readdir(objects)).map((name) => name.replaceAll("+", "/"));
    return keys.filter((key) => isKey(key) && key.startsWith(prefix));
  }

  const { secrets, log, limits = defaultUploadLimits } = options;
  const uploads = { secrets, log, isKey, write, limits, slots: createSlots(limits) };

  const store: DiskStore = {
    stat,
    async presignPut(key, { contentType, maxBytes, expiresInSeconds, owner }) {
      fileName(key);
      const expiresAt = Math.floor(Date.now() / 1000) + expiresInSeconds;
      const query = signGrant(
        { method: "PUT", key, contentType, maxBytes, expiresAt, owner },
        options.secrets[0]!,
      );
      return { url: `${options.baseUrl}/uploads/${key}?${query}`, method: "PUT", contentType };
    },
    async get(key, wanted) {
      const file = await openObject(pathOf(key));
      if (!file) throw new ObjectStoreError("object_not_found", `There is no object ${key}.`);
      const { digest, length } = await readHeader(file).catch(async (error) => {
        await file.close();
        throw error;
      });
      if (wanted === undefined || digest === wanted) return file.createReadStream({ start: length });
      await file.close();
      throw new ObjectStoreError("object_changed", `The object ${key} has changed.`);
    },
    async freeze(key) {
      await chmod(pathOf(key), FROZEN).catch((error) => {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      });
    },
    async put(key, body, contentType) {
      const stream = body instanceof Readable ? body : Readable.from([body]);
      await write(key, stream, contentType, Number.POSITIVE_INFINITY, true);
    },
    async move(from, to) {
      await rename(pathOf(from), pathOf(to)).catch((error) => {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        throw new ObjectStoreError("object_not_found", `There is no object ${from}.`);
      });
      await syncFolder(objects);
    },
    async remove(key) {
      await rm(pathOf(key), { force: true });
    },
    async removePrefix(prefix) {
      await tryEach(await listKeys(prefix), store.remove);
    },
    async sweep(olderThan, prefix) {
      let count = 0;
      await tryEach(await listKeys(prefix), async (key) => {
        const found = await statFile(pathOf(key)).catch(() => undefined);
        if (!found || found.mtime >= olderThan) return;
        await store.remove(key);
        count++;
      });
      return count;
    },
    async presignDownload(key, { fileName: name, expiresInSeconds, owner }) {
      fileName(key);
      const expiresAt = Math.floor(Date.now() / 1000) + expiresInSeconds;
      const query = signDownload({ key, fileName: name, expiresAt, owner }, options.secrets[0]!);
      return `${options.baseUrl}${DOWNLOADS}${key}?${query}`;
    },
    handle: (req, res) =>
      req.url?.startsWith(DOWNLOADS) ? download(req, res) : handleUpload(req, res, uploads),
    keys: listKeys,
  };
  const download = createDownloads({ secrets, log, isKey, stat, get: store.get });
  return store;
}

/** Flattens a key, because one key may be a prefix of another: a file cannot also be a folder. */
function fileName(key: string): string {
  return checkKey(key).replaceAll("/", "+");
}

async function openObject(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

const HEADER_BYTES = 1024;

/** Has the length of the digest that replaces it once everything is written. */
const NO_DIGEST = "0".repeat(64);

function headerOf(contentType: string, digest: string): Buffer {
  const header = Buffer.from(`${JSON.stringify({ contentType, digest })}\n`);
  if (header.length > HEADER_BYTES) throw new Error("the content type is too long");
  return header;
}

type Header = { contentType: string; digest?: string };

async function readHeader(file: FileHandle): Promise<Header & { length: number }> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
  const length = buffer.subarray(0, bytesRead).indexOf(10) + 1;
  return { ...(JSON.parse(buffer.toString("utf8", 0, length)) as Header), length };
}

/** The mode of a file whose object can no longer be replaced by uploads. */
const FROZEN = 0o400;

async function isFrozen(path: string): Promise<boolean> {
  const found = await statFile(path).catch(() => undefined);
  return found !== undefined && (found.mode & 0o777) === FROZEN;
}

/** Passes the chunks on and adds them to `digest`; throws `TooLarge` after `maxBytes`. */
async function* limitBytes(
  maxBytes: number,
  body: AsyncIterable<Buffer>,
  digest: Hash,
): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw new TooLarge();
    digest.update(chunk);
    yield chunk;
  }
}

/** A rename survives a crash only once its folder is synced. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}

/** Names the process that writes the file, so that the files of killed processes can be recognised. */
function incomingName(): string {
  const started = Buffer.from(startedOf(process.pid) ?? "").toString("base64url");
  return `${process.pid}.${started}.${randomBytes(8).toString("hex")}`;
}

/** Removes the files that killed processes left behind. */
function sweepIncoming(folder: string): void {
  for (const name of readdirSync(folder)) {
    const [pid = "", started = ""] = name.split(".");
    const writer = { pid: Number(pid), started: Buffer.from(started, "base64url").toString() };
    if (!isAlive(writer)) rmSync(join(folder, name), { force: true });
  }
}
