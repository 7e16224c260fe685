import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { objectStoreContract, send, textOf } from "../../../../test/contracts/ports/object-store/contract.ts";
import { findS3Server, type S3Server, startS3Server } from "../../../../test/support/servers/s3-server.ts";
import { sendParts } from "../../addons/kubernetes/backups/send-parts.ts";
import { createS3Store, type S3StoreOptions } from "./adapter.ts";

const log = { info() {}, warn() {} };

/** A store in a bucket of its own, which it has to make. */
async function openS3(server: S3Server, changes: Partial<S3StoreOptions> = {}) {
  const { endpoint, accessKey, secretKey } = server;
  const bucket = `bucket-${Math.random().toString(36).slice(2)}`;
  const region = "us-east-1";
  const store = createS3Store({ endpoint, bucket, region, accessKey, secretKey, log, ...changes });
  await store.start();
  return { store, bucket };
}

const program = findS3Server();
if (program === undefined)
  console.warn("No versitygw on PATH nor in the cache of deploy/cluster: S3 is tested with the cluster.");

describe.skipIf(program === undefined)("S3", () => {
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server(program!);
  });
  afterAll(() => server.close());

  // Its HTTP library ends a body that is cut as if it were whole.
  const keepsCutUploads = true;
  objectStoreContract("S3", async () => ({
    ...(await openS3(server)),
    keepsCutUploads,
    close: async () => {},
  }));

  test("a bucket that is there is taken as it is, also by several processes at once", async () => {
    const { store, bucket } = await openS3(server);
    await store.put("kept", Buffer.from("x"), "text/plain");
    await Promise.all([openS3(server, { bucket }), openS3(server, { bucket })]);
    expect(await textOf(store, "kept")).toBe("x");
    const fresh = "made-by-all-at-once";
    await Promise.all([1, 2, 3].map(() => openS3(server, { bucket: fresh })));
  });

  test("what others send in parts is an object once it is completed, and nothing before", async () => {
    const { store } = await openS3(server);
    const MiB = 1024 ** 2;
    const file = join(await mkdtemp(join(tmpdir(), "berth-part-")), "part");
    const content = randomBytes(12 * MiB + 1);
    async function* pieces() {
      for (let at = 0; at < content.length; at += 700_001) yield content.subarray(at, at + 700_001);
    }
    async function* few() {
      yield Buffer.from("few");
    }
    const begin = async (key: string) => {
      const { id, urls } = await store.beginParts(key, "text/plain", { most: 4, expiresInSeconds: 60 });
      return { id, parts: urls.map((url) => ({ url, bytes: 5 * MiB })) };
    };
    const { id, parts } = await begin("large");
    expect(await sendParts(pieces(), parts, file)).toBe(3);
    expect(await store.stat("large")).toBeUndefined();
    await expect(store.completeParts("large", id, 4)).rejects.toThrow("of 4 parts");
    await store.completeParts("large", id, 3);
    expect(await store.stat("large")).toMatchObject({ size: content.length, contentType: "text/plain" });
    expect((await buffer(await store.get("large"))).equals(content)).toBe(true);

    await expect(sendParts(pieces(), (await begin("more")).parts.slice(0, 2), file)).rejects.toThrow(
      "larger",
    );
    const wrong = parts.map(({ url, bytes }) => ({ url: url.replace("large", "other"), bytes }));
    // A few bytes, which the server has whole: it answers 403 early, and what is still on its way ends in a reset.
    await expect(sendParts(few(), wrong, file)).rejects.toThrow("does not take a part: 403");
    const left = await begin("under.1");
    await sendParts(pieces(), left.parts, file);
    await store.removePrefix("under.");
    await expect(store.completeParts("under.1", left.id, 3)).rejects.toThrow();
    await store.abortParts("under.1", left.id);
  });

  test("uploads go to the public address, builds read at the internal one", async () => {
    const publicEndpoint = server.endpoint.replace("127.0.0.1", "localhost");
    const { store } = await openS3(server, { publicEndpoint });
    const { url } = await store.presignPut("a", {
      contentType: "text/plain",
      maxBytes: 9,
      expiresInSeconds: 60,
    });
    expect(url.startsWith(`${publicEndpoint}/`)).toBe(true);
    expect((await send(url, { body: "up" })).status).toBe(200);
    const reading = await store.presignGet("a", 60);
    expect(reading.startsWith(`${server.endpoint}/`)).toBe(true);
    expect(await (await fetch(reading)).text()).toBe("up");
    const other = await fetch(reading.replace("/a~", "/b~"));
    expect([other.status, (await fetch(reading, { method: "DELETE" })).status]).toEqual([403, 403]);
  });

  test("more objects than one page of a list are all removed", async () => {
    const { store } = await openS3(server);
    const keys = Array.from({ length: 1_100 }, (_, n) => `many/${n}`);
    for (let at = 0; at < keys.length; at += 50)
      await Promise.all(keys.slice(at, at + 50).map((key) => store.put(key, Buffer.from("x"), "text/plain")));
    expect(await store.sweep(new Date(Date.now() + 60_000), "many/")).toBe(1_100);
    expect(await store.stat("many/0")).toBeUndefined();
    expect(await store.stat("many/1099")).toBeUndefined();
  });

  test("credentials that the store refuses are said at once, without the secret", async () => {
    const secretKey = "a-secret-that-is-wrong";
    const error: Error = await openS3(server, { secretKey }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(JSON.stringify({ ...error, message: error.message, stack: error.stack })).not.toContain(secretKey);
  });
});
