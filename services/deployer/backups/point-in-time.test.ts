import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { addonAdmin, withDumps } from "../addons/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import { startDeployer, type TestDeployer } from "../testing/testing.ts";
import { addonWithBackups } from "./testing.ts";

const HOUR_MS = 3_600_000;
const now = Date.now();
const ago = (hours: number) => timestampFromDate(new Date(now - hours * HOUR_MS));

/** What the archive of any addon here has, and the moments that were asked of it. */
const archive: { from?: Date; failure?: string; asked: string[] } = { asked: [] };
let berth: TestDeployer;

beforeAll(async () => {
  // A machine keeps no archive. Its backups take the place of those that a cluster makes of a moment.
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() }, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const { addonServers } = engine;
    const backups: typeof addonServers.backups = {
      ...addonServers.backups,
      noArchive: ({ type }) => (type === "postgres" ? undefined : "Only PostgreSQL has an archive."),
      pointInTime: async () => ({ from: archive.from, failure: archive.failure }),
      make(addon, password, key, signal, at) {
        if (at) archive.asked.push(at.toISOString());
        return addonServers.backups.make(addon, password, key, signal);
      },
    };
    return { ...engine, addonServers: { ...addonServers, backups } };
  });
});
afterAll(() => berth?.stop());

withDumps("a backup of a moment is made, shown with it, and is none of what the addon has now", async () => {
  archive.from = new Date(now - 3 * HOUR_MS);
  const db = await addonWithBackups(berth, "postgres");
  const shown = await db.catalog.getService(db.path);
  expect(shown.capabilities).toMatchObject({ pointInTime: true });
  expect(timestampDate(shown.backups!.oldestRestorableAt!)).toEqual(archive.from);
  expect(shown.backups?.archiveFailure).toBeUndefined();
  const { id } = await db.backups.createBackup({ ...db.path, at: ago(1) });
  const made = await db.untilEnded(id);
  expect(made).toMatchObject({ status: "succeeded", trigger: "manual", at: ago(1) });
  expect(archive.asked).toContain(timestampDate(ago(1)).toISOString());
  expect((await db.catalog.getService(db.path)).backups?.latestAt).toBeUndefined();
  // A fork without a moment has what the addon has now.
  const fork = await db.fork({ service: db.id });
  expect(await fork.untilRestored()).toMatchObject({ status: "succeeded" });
  const [newest] = (await db.backups.listBackups(db.path)).data;
  expect(newest).toMatchObject({ status: "succeeded", trigger: "manual" });
  expect(newest?.at).toBeUndefined();
  archive.failure = "The archive takes nothing new at present.";
  expect((await db.catalog.getService(db.path)).backups).toMatchObject({ archiveFailure: archive.failure });
  archive.failure = undefined;
});

withDumps("an addon gets its data of a moment back, and another one begins with them", async () => {
  archive.from = new Date(now - 3 * HOUR_MS);
  const db = await addonWithBackups(berth, "postgres");
  const restoring = db.backups.restoreBackup({ ...db.path, at: ago(2) });
  const { code, message } = await refusal(restoring);
  expect(code).toBe("impact_confirmation_required");
  expect(message).toContain(timestampDate(ago(2)).toISOString());
  expect(message).toContain("what was written since then is lost");
  expect((await db.backups.listBackups(db.path)).data).toEqual([]);
  await db.query("create table notes as select 'kept' as text");
  await db.backups.restoreBackup({ ...db.path, at: ago(2), confirmImpact: true });
  const restored = await db.untilRestored();
  expect(restored).toMatchObject({ status: "succeeded" });
  expect(await db.get(restored!.backup)).toMatchObject({ at: ago(2), status: "succeeded" });
  const fork = await db.fork({ service: db.id, at: ago(1) });
  const begun = await fork.untilRestored();
  expect(begun).toMatchObject({ status: "succeeded" });
  expect(await db.get(begun!.backup)).toMatchObject({ at: ago(1) });
  expect(await fork.query("select text from notes")).toEqual([{ text: "kept" }]);
  expect(archive.asked).toEqual(
    expect.arrayContaining([ago(2), ago(1)].map((at) => timestampDate(at).toISOString())),
  );
});

test("a moment that cannot be had is refused with what can, and nothing is begun", async () => {
  archive.from = new Date(now - 3 * HOUR_MS);
  const [db, store] = await Promise.all([
    addonWithBackups(berth, "postgres"),
    addonWithBackups(berth, "redis"),
  ]);
  const create = (at = ago(1)) => db.backups.createBackup({ ...db.path, at });
  const restore = (more: object) => db.backups.restoreBackup({ ...db.path, confirmImpact: true, ...more });
  const early = await refusal(create(ago(4)));
  expect([early.code, early.reasons]).toEqual(["validation_failed", ["out_of_range"]]);
  expect(early.details[0]?.message).toContain(archive.from.toISOString());
  expect(await refused(create(timestampFromDate(new Date(Date.now() + HOUR_MS))))).toBe(
    "422 validation_failed out_of_range",
  );
  expect(await refused(db.backups.createBackup({ ...db.path, at: ago(1), upload: "bkp_x" }))).toBe(
    "422 validation_failed exclusive",
  );
  for (const both of [{}, { at: ago(1), backup: "bkp_x" }])
    expect(await refused(restore(both))).toBe("422 validation_failed exclusive");
  expect(await refused(db.fork({ at: ago(1) }))).toBe("422 validation_failed required");
  expect(await refused(db.fork({ service: db.id, backup: "bkp_x", at: ago(1) }))).toBe(
    "422 validation_failed exclusive",
  );
  expect(await refused(db.fork({ service: db.id, at: ago(4) }))).toBe("422 validation_failed out_of_range");
  expect(await refused(db.fork({ service: "svc_x", at: ago(1) }))).toBe("404 not_found");
  archive.from = undefined;
  const none = await refusal(create());
  expect(none.details[0]?.message).toContain("no moment to go back to yet");
  expect((await db.backups.listBackups(db.path)).data).toEqual([]);
  expect((await store.catalog.getService(store.path)).capabilities).toMatchObject({
    pointInTime: false,
    pointInTimeReason: "Only PostgreSQL has an archive.",
  });
});

test("where there is no archive, the reason is said", async () => {
  const plain = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
  try {
    const db = await addonWithBackups(plain, "postgres");
    const { capabilities } = await db.catalog.getService(db.path);
    expect(capabilities).toMatchObject({ pointInTime: false });
    const { reasons, details } = await refusal(db.backups.createBackup({ ...db.path, at: ago(1) }));
    expect(reasons).toEqual(["not_supported_here"]);
    expect(details[0]?.message).toBe(capabilities?.pointInTimeReason);
  } finally {
    await plain.stop();
  }
});
