import { mkdir, readdir, rm, rmdir } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { newId } from "../../../kit/ids.ts";
import { refusal, refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { addonAdmin, command, type PublishedKeys, withDumps, withRedis } from "../../addons/testing.ts";
import { createDiskStore } from "../../store/disk/adapter.ts";
import { startDeployer, type TestDeployer } from "../../testing/testing.ts";
import { addonWithBackups } from "../testing.ts";
import { sweepUploads, takeUpload } from "./uploads.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
});
afterAll(() => berth?.stop());

type Addon = Awaited<ReturnType<typeof addonWithBackups>>;

const RDB = Buffer.from("REDIS0011 and what is in it");
const files = async (of: string) =>
  (await readdir(join(berth.dataDir, "store", "objects"))).filter((name) => name.includes(of));

const diskStore = () =>
  createDiskStore({ folder: join(berth.dataDir, "store"), baseUrl: "", secrets: ["x"], log: console });

const put = (url: string, body: Buffer, type = "application/octet-stream") =>
  fetch(url, { method: "PUT", headers: { "content-type": type }, body: new Uint8Array(body) });

/** Uploads a dump, and returns what names it. */
async function upload({ backups, path }: Addon, dump: Buffer) {
  const target = await backups.createBackupUpload(path);
  expect((await put(target.uploadUrl, dump)).status).toBe(200);
  return target;
}

const complete = ({ backups, path }: Addon, uploaded: string) =>
  backups.createBackup({ ...path, upload: uploaded });

async function saved({ backups, path }: Addon, backupId: string): Promise<Buffer> {
  const { url } = await backups.downloadBackup({ ...path, backupId });
  return Buffer.from(await (await fetch(url)).arrayBuffer());
}

const UNKNOWN = "422 validation_failed upload_unknown";

withDumps(
  "a dump of another database is uploaded and restored, and all of it runs as the addon's role",
  async () => {
    const theirs = await addonWithBackups(berth, "postgres");
    await theirs.query(
      `create table notes (id int primary key); insert into notes values (1); grant select on notes to public;
     create materialized view doers as select current_user::text as role,
       (select rolsuper from pg_roles where rolname = session_user) as super`,
    );
    const dump = await saved(theirs, (await theirs.backUp()).id);
    const db = await addonWithBackups(berth, "postgres");
    const { upload: name, uploadUrl } = await upload(db, dump);
    const backup = await complete(db, name);
    expect(backup).toMatchObject({
      id: name,
      status: "succeeded",
      trigger: "uploaded",
      sizeBytes: dump.length,
    });
    // What is sent to the URL afterwards is no part of it.
    await put(uploadUrl, Buffer.from("PGDMP and something else"));
    expect((await saved(db, name)).equals(dump)).toBe(true);
    expect(await db.restore(name)).toMatchObject({ status: "succeeded", backup: name });
    expect(await db.query("select * from notes")).toEqual([{ id: 1 }]);
    expect(await db.query("select * from doers")).toEqual([
      { role: `addon_${db.id.slice(4)}`, super: false },
    ]);

    const plain = Buffer.from("--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\n");
    const asked = complete(db, (await upload(db, plain)).upload);
    const { code, reasons, details } = await refusal(asked);
    expect([code, reasons]).toEqual(["validation_failed", ["not_a_dump"]]);
    expect(details[0]!.message).toContain(
      "Make one with pg_dump --format=custom, or run it against the addon",
    );
  },
);

withDumps(
  "a dump that was cut, or asks for more than the addon's role may, is refused with a reason",
  async () => {
    const theirs = await addonWithBackups(berth, "postgres");
    const place = "'and here is enough room for another statement'";
    await theirs.query(
      `create table notes (text text); comment on table notes is ${place};
     insert into notes select md5(n::text) from generate_series(1, 20000) n`,
    );
    const dump = await saved(theirs, (await theirs.backUp()).id);
    const comment = `COMMENT ON TABLE public.notes IS ${place};`;
    const at = dump.indexOf(comment);
    expect(at).toBeGreaterThan(0);
    const asking = (statement: string) => {
      const changed = Buffer.from(dump);
      changed.write(statement.padEnd(comment.length), at);
      return changed;
    };
    const db = await addonWithBackups(berth, "postgres");
    await db.query("create table own (n int)");
    const restored = async (body: Buffer) => {
      const { id } = await complete(db, (await upload(db, body)).upload);
      const { status, failure } = (await db.restore(id))!;
      return [status, failure];
    };
    const damaged =
      "The backup is damaged, or a part of it is missing. Restore another one, or upload the whole dump again.";
    expect(await restored(dump.subarray(0, dump.length - 50_000))).toEqual(["failed", damaged]);
    expect(await restored(dump.subarray(0, 1_000))).toEqual(["failed", damaged]);
    expect(await restored(asking("COPY public.notes FROM PROGRAM 'id';"))).toEqual([
      "failed",
      "The database refused it: permission denied to COPY to or from an external program.",
    ]);
    expect(await restored(asking("RESET ROLE; ALTER ROLE CURRENT_USER SUPERUSER;"))).toEqual([
      "failed",
      "The database refused it: permission denied to alter role.",
    ]);
    expect(await db.query("select count(*)::int as n from own")).toEqual([{ n: 0 }]);
    expect(await restored(dump)).toEqual(["succeeded", undefined]);
  },
);

withRedis("an RDB file is uploaded and restored into an addon", async () => {
  const theirs = await addonWithBackups(berth, "redis");
  await command((await theirs.keys()) as unknown as PublishedKeys, ["SET", "first", "1"]);
  const dump = await saved(theirs, (await theirs.backUp()).id);
  const store = await addonWithBackups(berth, "redis");
  const { id } = await complete(store, (await upload(store, dump)).upload);
  expect(await store.restore(id)).toMatchObject({ status: "succeeded" });
  await command((await store.keys()) as unknown as PublishedKeys, ["RENAME", "first", "kept"]);
});

withRedis("what is no dump is no backup: its upload is over, and nothing of it is left", async () => {
  const store = await addonWithBackups(berth, "redis");
  const missing = await store.backups.createBackupUpload(store.path);
  expect(await refused(complete(store, missing.upload))).toBe("422 validation_failed upload_missing");
  for (const body of [Buffer.from("PGDMP"), Buffer.alloc(0), Buffer.from("*1\r\n$8\r\nFLUSHALL\r\n")]) {
    const { upload: name } = await upload(store, body);
    expect(await refused(complete(store, name))).toBe("422 validation_failed not_a_dump");
    expect(await refused(complete(store, name))).toBe(UNKNOWN);
    expect(await files(name)).toEqual([]);
  }
  const negative = { ...store.path, sizeBytes: -1 };
  expect(await refused(store.backups.createBackupUpload(negative))).toBe(
    "422 validation_failed out_of_range",
  );
  const large = { ...store.path, sizeBytes: 5 * 1024 ** 3 + 1 };
  expect(await refused(store.backups.createBackupUpload(large))).toBe(
    "422 validation_failed upload_too_large",
  );
  expect((await put(missing.uploadUrl, RDB, "text/plain")).status).toBe(415);
  expect(await announced(missing.uploadUrl, 5 * 1024 ** 3 + 1)).toBe(413);
  expect((await store.backups.listBackups(store.path)).data).toEqual([]);
});

/** Returns the status of an upload that announces so many bytes. */
function announced(url: string, bytes: number): Promise<number | undefined> {
  const headers = { "content-type": "application/octet-stream", "content-length": bytes };
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: "PUT", headers, agent: false }, (response) => {
      resolve(response.statusCode);
      sending.destroy();
    });
    sending.on("error", reject).flushHeaders();
  });
}

withRedis("an upload is of one addon, and becomes one backup, however often it is asked for", async () => {
  const store = await addonWithBackups(berth, "redis");
  const other = await addonWithBackups(berth, "redis", store.accountId);
  const stranger = await addonWithBackups(berth, "redis");
  const { upload: name } = await upload(store, RDB);
  expect(await refused(complete(stranger, name))).toBe(UNKNOWN);
  expect(await refused(complete(other, name))).toBe(UNKNOWN);
  expect(await refused(complete(store, "bkp_none"))).toBe(UNKNOWN);
  const asked = await Promise.allSettled([1, 2, 3, 4].map(() => complete(store, name)));
  expect(asked.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await refused(complete(store, name))).toBe(UNKNOWN);
  expect(await saved(store, name)).toEqual(RDB);
  expect((await store.backups.listBackups(store.path)).data.map(({ id }) => id)).toEqual([name]);
  // It is no backup of what the addon has.
  expect((await store.catalog.getService(store.path)).backups?.latestAt).toBeUndefined();
  await store.backups.deleteBackup({ ...store.path, backupId: name });
  await eventually("its object is removed", async () => (await files(name)).length === 0);
});

withRedis("what was checked is what becomes the backup, also when another request is late", async () => {
  const store = await addonWithBackups(berth, "redis");
  const { upload: name, uploadUrl } = await upload(store, RDB);
  const disk = diskStore();
  const { promise: late, resolve } = Promise.withResolvers<void>();
  // It has seen that nobody took the dump yet.
  const slow = { ...disk, move: (from: string, to: string) => late.then(() => disk.move(from, to)) };
  const taken = takeUpload({ pool: berth.pool, store: slow }, { id: store.id, type: "redis" }, name);
  await eventually("it is being taken", async () => {
    const { rows } = await berth.pool.query("select taken_until from backup_uploads where id = $1", [name]);
    return rows[0].taken_until !== null;
  });
  expect(await refused(complete(store, name))).toBe("409 backup_running");
  resolve();
  await taken;
  await complete(store, name);
  await put(uploadUrl, Buffer.from("REDIS0011 and something else"));
  expect(await saved(store, name)).toEqual(RDB);
});

withRedis("an addon has few uploads at once, and with them no more backups than others", async () => {
  const store = await addonWithBackups(berth, "redis");
  const begin = () => store.backups.createBackupUpload(store.path);
  const begun = [await upload(store, RDB)];
  while (begun.length < 5) begun.push(await begin());
  expect(await refused(begin())).toBe("409 too_many_uploads");
  await complete(store, begun[0]!.upload);
  begun.push(await begin());
  await berth.pool.query(
    `insert into backups (id, account_id, service_id, type, trigger, status, due_at)
     select 'bkp_full' || n || $2, $1, $2, 'redis', 'manual', 'succeeded', null from generate_series(1, 19) n`,
    [store.accountId, store.id],
  );
  expect(await refused(begin())).toBe("409 too_many_backups");
  await put(begun[1]!.uploadUrl, RDB);
  expect(await refused(complete(store, begun[1]!.upload))).toBe("409 too_many_backups");
});

withRedis(
  "an upload that is never finished is removed, also one that was taken when its process was killed",
  async () => {
    const store = await addonWithBackups(berth, "redis");
    const left = await upload(store, RDB);
    const taken = await upload(store, RDB);
    const young = await upload(store, RDB);
    const disk = diskStore();
    await disk.move(`dumps/${store.id}/${taken.upload}`, `backups/${store.id}/${taken.upload}.upload`);
    // As it is after a kill, it can still be completed.
    expect((await complete(store, taken.upload)).status).toBe("succeeded");
    await berth.pool.query(
      "update backup_uploads set created_at = now() - interval '3 hours 1 minute' where id = $1",
      [left.upload],
    );
    expect(await refused(complete(store, left.upload))).toBe(UNKNOWN);
    await berth.pool.query(
      "update backup_uploads set created_at = now() - interval '5 hours' where id = $1",
      [left.upload],
    );
    await eventually("it is removed", async () => {
      await sweepUploads({ pool: berth.pool, store: disk });
      return (await files(left.upload)).length === 0;
    });
    expect(await files(taken.upload)).toHaveLength(1);
    expect((await complete(store, young.upload)).status).toBe("succeeded");
  },
);

withRedis("uploads that cannot be removed hold up no others, and are tried again", async () => {
  const store = await addonWithBackups(berth, "redis", newId("acc"));
  const [stuck, other] = [await upload(store, RDB), await upload(store, RDB)];
  const object = join(berth.dataDir, "store", "objects", `dumps+${store.id}+${stuck.upload}`);
  await rm(object);
  await mkdir(object);
  await berth.pool.query(
    `update backup_uploads set created_at = now() - interval '5 hours' - make_interval(hours => (id = $1)::int)
     where service_id = $2`,
    [stuck.upload, store.id],
  );
  const disk = diskStore();
  await expect(sweepUploads({ pool: berth.pool, store: disk })).rejects.toThrow(stuck.upload);
  expect(await files(other.upload)).toEqual([]);
  await rmdir(object);
  await sweepUploads({ pool: berth.pool, store: disk });
  const { rows } = await berth.pool.query("select id from backup_uploads where service_id = $1", [store.id]);
  expect(rows).toEqual([]);
});

withRedis("what was uploaded goes with its addon, at once", async () => {
  const store = await addonWithBackups(berth, "redis", newId("acc"));
  await upload(store, RDB);
  expect(await files(store.id)).toHaveLength(1);
  await store.catalog.deleteService({ ...store.path, confirmImpact: true });
  await eventually("nothing is left", async () => (await files(store.id)).length === 0);
});
