import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  cutUpload,
  objectStoreContract,
  send,
  textOf,
} from "../../../../test/contracts/ports/object-store/contract.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { createDiskStore, type DiskStore } from "./adapter.ts";
import { signGrant } from "./signed-url.ts";
import { defaultUploadLimits, type UploadLimits } from "./upload-limits.ts";

const log = { warn() {} };
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A store behind a server of its own, as the deployer mounts it. */
async function openDisk(
  options: { folder?: string; secrets?: string[]; limits?: Partial<UploadLimits> } = {},
) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "berth-store-"));
  let store: DiskStore;
  const server = createServer((req, res) => void store.handle(req, res));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const limits = { ...defaultUploadLimits, ...options.limits };
  store = createDiskStore({ folder, baseUrl, secrets: options.secrets ?? ["a secret"], limits, log });
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    if (!options.folder) await rm(folder, { recursive: true });
  };
  return { store, folder, baseUrl, close };
}

objectStoreContract("disk", () => openDisk());

describe("the disk store", () => {
  const terms = { contentType: "application/gzip", maxBytes: 1000, expiresInSeconds: 900 };
  const filesIn = (folder: string) =>
    ["objects", "incoming"].flatMap((one) => readdirSync(join(folder, one)));
  async function open(options?: Parameters<typeof openDisk>[0]) {
    const disk = await openDisk(options);
    cleanups.push(disk.close);
    return disk;
  }

  test("a signed URL downloads one object as a file, until it expires, and nothing else does", async () => {
    const { store, baseUrl } = await open();
    await store.put("backups/one", Buffer.from("all data"), "application/octet-stream");
    await store.put("backups/two", Buffer.from("other data"), "application/octet-stream");
    const grant = { fileName: "db.dump", expiresInSeconds: 60 };
    const url = await store.presignDownload("backups/one", grant);
    const answer = await fetch(url);
    expect([answer.status, await answer.text()]).toEqual([200, "all data"]);
    expect(answer.headers.get("content-disposition")).toBe('attachment; filename="db.dump"');
    expect(answer.headers.get("content-length")).toBe("8");
    const status = async (at: string, method = "GET") => (await fetch(at, { method })).status;
    expect(await status(url.replace("backups/one", "backups/two"))).toBe(403);
    expect(await status(url.replace("db.dump", "x.html"))).toBe(403);
    expect(await status(url.replace(/expires=\d+/, "expires=99999999999"))).toBe(403);
    expect(await status(`${baseUrl}/downloads/backups/one`)).toBe(403);
    expect(await status(`${baseUrl}/downloads/../objects`)).toBe(404);
    expect(await status(url, "POST")).toBe(405);
    expect(await status(await store.presignDownload("backups/one", { ...grant, expiresInSeconds: -1 }))).toBe(
      403,
    );
    // Neither is good for the other.
    expect(await status(url.replace("/downloads/", "/uploads/"), "PUT")).toBe(403);
    const upload = await store.presignPut("backups/one", { ...terms, maxBytes: 1 });
    expect(await status(upload.url.replace("/uploads/", "/downloads/"))).toBe(403);
    await store.remove("backups/one");
    expect(await status(url)).toBe(404);
  });

  test("downloads of one account, however slow, leave room for those of others", async () => {
    const { store } = await open();
    for (const owner of ["acc_a", "acc_b"])
      await store.put(`backups/${owner}`, Buffer.alloc(20_000_000), "application/octet-stream");
    const grant = { fileName: "db.dump", expiresInSeconds: 60 };
    // Nobody reads what is answered.
    const begin = async (owner: string) => {
      const sent = request(await store.presignDownload(`backups/${owner}`, { ...grant, owner })).end();
      sent.on("error", () => {});
      const [{ statusCode: status }] = await once(sent, "response");
      return { status, stop: () => sent.destroy() };
    };
    const slow = [];
    for (let n = 0; n < 8; n++) slow.push(await begin("acc_a"));
    expect(slow.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect((await begin("acc_a")).status).toBe(429);
    const other = await begin("acc_b");
    expect(other.status).toBe(200);
    slow[0]!.stop();
    const next = await eventually("one has room again", async () => {
      const found = await begin("acc_a");
      return found.status === 200 && found;
    });
    for (const { stop } of [...slow, other, next]) stop();
  });

  test("an upload that was frozen is not replaced, not even by one that had begun", async () => {
    const { store, folder } = await open();
    const { url } = await store.presignPut("key", terms);
    expect((await send(url, { body: "first" })).status).toBe(200);
    const late = request(url, { method: "PUT", headers: { "content-type": terms.contentType } });
    late.write("sec");
    const answered = once(late, "response");
    await vi.waitFor(() => expect(readdirSync(join(folder, "incoming"))).toHaveLength(1), 10_000);
    await store.freeze!("key");
    await store.freeze!("key");
    await store.freeze!("never-there");
    expect(await send(url, { body: "third" })).toMatchObject({
      status: 409,
      body: expect.stringContaining("archive_deployed"),
    });
    late.end("ond");
    const [response] = await answered;
    expect(response.statusCode).toBe(409);
    response.resume();
    expect(await textOf(store, "key")).toBe("first");
    await store.remove("key");
    expect((await send(url, { body: "fourth" })).status).toBe(200);
  });

  test("refuses in the error envelope: what, with which status and code", async () => {
    const { store, baseUrl, folder } = await open();
    const { url } = await store.presignPut("key", terms);
    const changed = (name: string, value: string) => {
      const other = new URL(url);
      other.searchParams.set(name, value);
      return other.href;
    };
    const past = {
      method: "PUT",
      key: "key",
      contentType: "application/gzip",
      maxBytes: 9,
      expiresAt: 1,
    } as const;
    const cases = [
      [url, { method: "POST" }, 405, "method_not_allowed"],
      [url.replace("/key?", "/other?"), {}, 403, "forbidden"],
      [changed("max", "1000000"), {}, 403, "forbidden"],
      [changed("type", "text/html"), { contentType: "text/html" }, 403, "forbidden"],
      [changed("expires", "9999999999"), {}, 403, "forbidden"],
      [changed("signature", ""), {}, 403, "forbidden"],
      [`${baseUrl}/uploads/key`, {}, 403, "forbidden"],
      [`${baseUrl}/uploads/key?${signGrant(past, "a secret")}`, {}, 403, "forbidden"],
      [url, { contentType: "application/octet-stream" }, 415, "unsupported_media_type"],
      [url, { body: Buffer.alloc(1001) }, 413, "payload_too_large"],
      [url, { body: Buffer.alloc(1001), chunked: true }, 413, "payload_too_large"],
      [url, { body: Buffer.alloc(30 * 1024 ** 2) }, 413, "payload_too_large"],
      [`${baseUrl}/uploads/..%2f..%2fetc`, {}, 404, "not_found"],
      [`${baseUrl}/elsewhere`, {}, 404, "not_found"],
    ] as const;
    for (const [address, sent, status, code] of cases) {
      const answer = await send(address, { body: "x", ...sent }).catch((error) => error);
      expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([status, code]);
    }
    expect(filesIn(folder)).toEqual([]);
    expect((await send(url, { body: Buffer.alloc(1000), chunked: true })).status).toBe(200);
  });

  test("refuses a body that is announced too large before taking any of it", async () => {
    const { store } = await open();
    const url = new URL((await store.presignPut("key", terms)).url);
    const socket = connect(Number(url.port), "127.0.0.1");
    socket.write(
      `PUT ${url.pathname}${url.search} HTTP/1.1\r\nhost: x\r\ncontent-type: application/gzip\r\ncontent-length: 1001\r\n\r\n`,
    );
    expect(String((await once(socket, "data"))[0])).toMatch(/^HTTP\/1.1 413 /);
    socket.destroy();
  });

  test("goes on accepting URLs signed with the secret before the newest", async () => {
    const { store, folder, close } = await openDisk({ secrets: ["old"] });
    const { pathname, search } = new URL((await store.presignPut("key", terms)).url);
    const rotated = await open({ folder, secrets: ["new", "old"] });
    expect((await send(`${rotated.baseUrl}${pathname}${search}`, { body: "x" })).status).toBe(200);
    const { url } = await rotated.store.presignPut("key", terms);
    const withoutNew = await open({ folder, secrets: ["old"] });
    const moved = url.replace(rotated.baseUrl, withoutNew.baseUrl);
    expect((await send(moved, { body: "x" })).status).toBe(403);
    await close();
  });

  test("keeps nothing of a broken upload", async () => {
    const { store, folder } = await open();
    const { url } = await store.presignPut("key", { ...terms, maxBytes: 10_000_000 });
    await cutUpload(url, 10_000_000, Buffer.alloc(5_000_000));
    while (filesIn(folder).length > 0) await delay(10);
    expect(await store.stat("key")).toBeUndefined();
  });

  test("keeps nothing of an upload during which its process was killed, and spares those of living ones", async () => {
    const folder = mkdtempSync(join(tmpdir(), "berth-store-"));
    cleanups.push(() => rm(folder, { recursive: true }));
    const program = join(
      import.meta.dirname,
      "../../../../test/contracts/ports/object-store/disk-process.ts",
    );
    const child = fork(program, [folder]);
    const incoming = () => readdirSync(join(folder, "incoming"));
    const [message] = await once(child, "message");
    expect(message).toBe("writing");
    const living = await openDisk({ folder });
    expect(incoming()).toHaveLength(1);
    child.kill("SIGKILL");
    await once(child, "exit");
    const { store } = await open({ folder });
    expect(incoming()).toEqual([]);
    expect(await store.stat("key")).toBeUndefined();
    await living.close();
  });

  test("writes its attributes and content in one step: a reader never sees one without the other", async () => {
    const { store } = await open();
    await store.put("key", Buffer.from("a"), "type/a");
    let writing = true;
    const writer = (async () => {
      for (let n = 0; n < 200; n++)
        await store.put("key", Buffer.from(n % 2 ? "a" : "bb"), n % 2 ? "type/a" : "type/bb");
      writing = false;
    })();
    while (writing) {
      const { size, contentType } = (await store.stat("key"))!;
      expect(contentType).toBe(size === 1 ? "type/a" : "type/bb");
      expect(["a", "bb"]).toContain(await textOf(store, "key"));
    }
    await writer;
  });

  describe("when clients are slow", () => {
    /** An upload that says it has more to send; `answer` is all that comes back. */
    async function begin(url: string) {
      const { port, pathname, search } = new URL(url);
      const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
      const answer = text(socket);
      answer.catch(() => {});
      socket.write(
        `PUT ${pathname}${search} HTTP/1.1\r\nhost: x\r\ncontent-type: application/gzip\r\ncontent-length: 1000\r\n\r\nsome`,
      );
      return { socket, answer };
    }
    const statusOf = (answer: string) => Number(answer.slice(9, 12));
    const under = (folder: string, count: number) =>
      eventually(`${count} uploads are under way`, async () => filesIn(folder).length === count);

    test("one that sends nothing more is ended with the reason, keeps nothing, and frees its URL", async () => {
      const { store, folder } = await open({ limits: { stallMs: 100, perUrl: 1 } });
      const { url } = await store.presignPut("key", terms);
      const { answer } = await begin(url);
      const said = await answer;
      expect(statusOf(said)).toBe(408);
      expect(said).toContain("request_timeout");
      expect(said).toContain("8192 bytes per second");
      expect(filesIn(folder)).toEqual([]);
      expect((await send(url, { body: "all of it" })).status).toBe(200);
    });

    test("one that sends less than it has to, but always a little, is ended as well", async () => {
      const { store, folder } = await open({ limits: { stallMs: 300, minBytesPerSecond: 100_000 } });
      const { socket, answer } = await begin((await store.presignPut("key", terms)).url);
      const drip = setInterval(() => socket.write("x"), 10);
      cleanups.push(async () => clearInterval(drip));
      expect(statusOf(await answer)).toBe(408);
      expect(filesIn(folder)).toEqual([]);
    });

    test("one that is fast enough, but takes too long in all, is ended as well", async () => {
      const { store, folder } = await open({ limits: { totalMs: 300, minBytesPerSecond: 1 } });
      const { socket, answer } = await begin((await store.presignPut("key", terms)).url);
      const drip = setInterval(() => socket.write("x"), 10);
      cleanups.push(async () => clearInterval(drip));
      expect(statusOf(await answer)).toBe(408);
      expect(filesIn(folder)).toEqual([]);
    });

    test("they hold no more than their share of URL, account and store, and a refused client learns when to retry", async () => {
      const { store, folder } = await open({ limits: { perUrl: 1, perOwner: 2, atOnce: 3 } });
      const urlOf = async (key: string, owner: string) =>
        (await store.presignPut(key, { ...terms, owner })).url;
      const tried = async (url: string) => {
        const answer = await (await begin(url)).answer;
        expect(answer).toMatch(/^retry-after: [1-9]/m);
        return [statusOf(answer), JSON.parse(answer.slice(answer.indexOf("{"))).error.code];
      };
      const first = await begin(await urlOf("a/1", "acc_a"));
      await under(folder, 1);
      expect(await tried(await urlOf("a/1", "acc_a"))).toEqual([429, "rate_limited"]);
      await begin(await urlOf("a/2", "acc_a"));
      await under(folder, 2);
      expect(await tried(await urlOf("a/3", "acc_a"))).toEqual([429, "rate_limited"]);
      await begin(await urlOf("b/1", "acc_b"));
      await under(folder, 3);
      expect(await tried(await urlOf("c/1", "acc_c"))).toEqual([503, "unavailable"]);

      first.socket.destroy();
      await under(folder, 2);
      expect((await send(await urlOf("a/1", "acc_a"), { body: "again" })).status).toBe(200);
    });

    test("the owner in a URL is part of what is signed, and URLs without one go on working", async () => {
      const { store } = await open();
      const { url } = await store.presignPut("key", { ...terms, owner: "acc_a" });
      expect((await send(url.replace("acc_a", "acc_b"), { body: "x" })).status).toBe(403);
      expect((await send(url.replace("&owner=acc_a", ""), { body: "x" })).status).toBe(403);
      expect((await send((await store.presignPut("key", terms)).url, { body: "x" })).status).toBe(200);
    });
  });

  test("answers what is no URL at all", async () => {
    const { store } = await open();
    const { port } = new URL((await store.presignPut("key", terms)).url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.write("PUT //[ HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 404 /);
  });

  test("removes the others, and says so, where one object cannot be removed", async () => {
    const { store, folder } = await open();
    const later = new Date(Date.now() + 60_000);
    for (const remove of [() => store.sweep(later, "a/"), () => store.removePrefix("a/")]) {
      for (const key of ["a/1", "a/3"]) await store.put(key, Buffer.from("x"), "text/plain");
      mkdirSync(join(folder, "objects", "a+2"), { recursive: true });
      await expect(remove()).rejects.toThrow("a+2");
      expect(await store.keys("a/")).toEqual(["a/2"]);
    }
  });

  test("leaves alone what others put beside its files", async () => {
    const { store, folder } = await open();
    writeFileSync(join(folder, "objects", "notes.txt~"), "mine");
    await store.removePrefix("a/");
    await store.sweep(new Date(0), "");
    expect(readFileSync(join(folder, "objects", "notes.txt~"), "utf8")).toBe("mine");
  });
});
