import { timestampNow } from "@bufbuild/protobuf/wkt";
import { BackupFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { createPastSlow } from "../../kit/concurrency/past-slow.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { Addons } from "../addons/lifecycle.ts";
import type { AddonBackups } from "../addons/port.ts";
import { findAddon, toAddon } from "../addons/sql.ts";
import type { Secrets } from "../secrets.ts";
import type { ObjectStore } from "../store/port.ts";
import { MOVE_BACKUPS } from "../tasks.ts";
import { BackupRefusal } from "../terms/backup-refusal.ts";
import { holdLease, LEASE_SECONDS } from "./hold-lease.ts";
import {
  endRestore,
  findObject,
  postponeRestore,
  renewRestore,
  type TakenRestore,
  takeRestore,
} from "./restores-sql.ts";
import { pruneBackups } from "./retention-sql.ts";
import * as sql from "./sql.ts";

/** Each reads or writes all data of an addon, so that more at once would only slow down the addons. */
const AT_ONCE = 2;
/** How many are under way at most, those included that take long. */
const MOST_AT_ONCE = 20;
/** And of one account: what its users make last for hours holds up no others. */
const MOST_OF_ONE = 5;
const ATTEMPTS = 3;
const RETRY_SECONDS = 10;
/** Longer than any of them takes. */
const MOST_MS = 6 * 3_600_000;

export type MoveBackupsDeps = {
  pool: Pool;
  store: ObjectStore;
  secrets: Secrets;
  addons: Pick<Addons, "provision">;
  backups: Pick<AddonBackups, "make" | "restore">;
  /** How many nightly backups of an addon are kept. */
  kept: number;
  log: Logger;
};

/**
 * Makes, restores and removes backups of addons (docs/addons.md#backups). A process does so while it holds the lease of the
 * row; what it leaves undone is begun again when the lease ends.
 */
export function startMovingBackups({ pool, store, secrets, addons, backups, kept, log }: MoveBackupsDeps) {
  const stopping = new AbortController();

  async function make(backup: sql.TakenBackup): Promise<void> {
    const { id, serviceId, turn } = backup;
    const at = backup.atMs === null ? undefined : new Date(backup.atMs);
    const object = `${objectsOf(backup)}${at ? "at-" : ""}${turn}`;
    let made: sql.Ending;
    try {
      // What an attempt left that was killed before it was recorded.
      if (turn > 1) await store.removePrefix(objectsOf(backup));
      const addon = await findAddon(pool, serviceId);
      if (!addon) throw new BackupRefusal("The addon is not there any more.");
      const password = secrets.open(addon.secret, serviceId);
      const { version } = await withLease(
        (seconds) => sql.renewBackup(pool, backup, seconds),
        (signal) => backups.make(toAddon(addon, false), password, object, signal, at),
      );
      const found = await store.stat(object);
      if (!found) throw new Error("the object of a backup is not there");
      made = { status: "succeeded", sizeBytes: found.size, object, version };
    } catch (error) {
      await store.remove(object).catch(() => {});
      return failed(backup, error);
    }
    // If this fails it may have been recorded: the object stays, and what was not recorded is begun again.
    if (await end(backup, made))
      log.info({ backup: id, serviceId, size: made.sizeBytes }, "an addon was backed up");
    else await store.remove(object);
  }

  async function failed(backup: sql.TakenBackup, error: unknown): Promise<void> {
    if (stopping.signal.aborted) return void (await sql.postponeBackup(pool, backup, 0, true));
    log.warn({ err: error, backup: backup.id, serviceId: backup.serviceId }, "a backup could not be made");
    const again = !(error instanceof BackupRefusal) && backup.attempts + 1 < ATTEMPTS;
    if (!again && (await end(backup, { status: "failed", failure: failureOf(error, "made") }))) return;
    // Also one that is being removed, as its service was deleted.
    await sql.postponeBackup(pool, backup, again ? RETRY_SECONDS * (backup.attempts + 1) : 0);
  }

  /** Records the end of a backup, and has those removed that are kept no longer. A failure is an event. */
  async function end(backup: sql.TakenBackup, ending: sql.Ending): Promise<boolean> {
    const { accountId, serviceId, id: backupId } = backup;
    return transaction(pool, async (tx) => {
      if ((await sql.endBackup(tx, backup, ending)) === 0) return false;
      const event = { accountId, serviceId, backupId, at: timestampNow() };
      if (ending.failure !== undefined)
        await emit(tx, BackupFailedSchema, accountId, { ...event, reason: ending.failure });
      await pruneBackups(tx, serviceId, kept);
      return true;
    });
  }

  async function remove(backup: sql.TakenBackup): Promise<void> {
    await store.removePrefix(objectsOf(backup));
    await sql.removeBackup(pool, backup);
  }

  async function restore(taken: TakenRestore): Promise<void> {
    const { serviceId } = taken;
    const [addon, object] = await Promise.all([findAddon(pool, serviceId), findObject(pool, taken)]);
    // Being deleted, and this with it.
    if (!addon) return;
    if (!object) throw new BackupRefusal("The backup did not succeed, or is not there any more.");
    const password = secrets.open(addon.secret, serviceId);
    const { key, uploaded } = object;
    const foreign = uploaded || object.serviceId !== serviceId;
    await withLease(
      (seconds) => renewRestore(pool, taken, seconds),
      (signal) => backups.restore(toAddon(addon, false), password, { key, foreign, uploaded }, signal),
    );
    // Its server may have another port now, and an older password.
    await addons.provision(serviceId);
    await transaction(pool, (tx) => endRestore(tx, taken, undefined));
    log.info({ serviceId, backup: taken.backupId }, "an addon was restored");
  }

  async function restoreOrPostpone(taken: TakenRestore): Promise<void> {
    try {
      await restore(taken);
    } catch (error) {
      if (stopping.signal.aborted) return void (await postponeRestore(pool, taken, 0, true));
      log.warn({ err: error, serviceId: taken.serviceId }, "an addon could not be restored");
      if (!(error instanceof BackupRefusal) && taken.attempts + 1 < ATTEMPTS)
        await postponeRestore(pool, taken, RETRY_SECONDS * (taken.attempts + 1));
      else await transaction(pool, (tx) => endRestore(tx, taken, failureOf(error, "restored")));
    }
  }

  /** Does something for as long as its lease is prolonged. */
  async function withLease<T>(
    renew: (seconds: number) => Promise<number>,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const lease = holdLease(renew);
    try {
      const signal = AbortSignal.any([lease.lost, stopping.signal, AbortSignal.timeout(MOST_MS)]);
      return await work(signal);
    } finally {
      lease.stop();
    }
  }

  /** The account of each that is under way. */
  const accounts = new Map<Promise<void>, string>();

  function begin(accountId: string, work: Promise<void>, about: object): void {
    const begun: Promise<void> = work
      .catch((err) => log.warn({ err, ...about }, "a backup could not be moved on; trying again"))
      .finally(() => accounts.delete(begun));
    accounts.set(begun, accountId);
    moving.begin(begun);
  }

  /** Returns the accounts that have as many under way as one may have. */
  function busyAccounts(): string[] {
    const all = [...accounts.values()];
    return [...new Set(all)].filter((one) => all.filter((id) => id === one).length >= MOST_OF_ONE);
  }

  /** Takes what is due first, one by one: how much its account has under way is known then. */
  async function takeNext(): Promise<Next> {
    if (moving.room() === 0) return undefined;
    const busy = busyAccounts();
    const lease = { leaseSeconds: LEASE_SECONDS, busy };
    const taken = await takeRestore(pool, lease);
    if (taken) begin(taken.accountId, restoreOrPostpone(taken), { serviceId: taken.serviceId });
    const backup = taken ? undefined : await sql.takeBackup(pool, lease);
    if (backup)
      begin(backup.accountId, backup.deleting ? remove(backup) : make(backup), { backup: backup.id });
    if (taken || backup) return "more";
    const inMs = await sql.msUntilDue(pool, busy);
    return inMs === undefined ? undefined : { inMs: Math.max(inMs, 100) };
  }

  const moving = createPastSlow({ atOnce: AT_ONCE, most: MOST_AT_ONCE }, () => task.wake());
  const task = startTask(MOVE_BACKUPS, takeNext, { log });
  return {
    wake: task.wake,
    /** Takes no more, and interrupts what is under way, which begins again elsewhere. */
    stop() {
      stopping.abort();
      return moving.settle(task.stop());
    },
  };
}

/** Returns the beginning of the keys of a backup's objects. */
const objectsOf = ({ id, serviceId }: sql.TakenBackup) => `backups/${serviceId}/${id}.`;

function failureOf(error: unknown, what: string): string {
  if (error instanceof BackupRefusal) return error.message;
  return `It could not be ${what} in ${ATTEMPTS} attempts. The log of the installation says why.`;
}
