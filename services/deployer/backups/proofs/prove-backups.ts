import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { type Next, startTask } from "../../../kit/tasks/task.ts";
import { createReadGauge } from "../../../kit/telemetry.ts";
import type { AddonBackups } from "../../addons/port.ts";
import { findAddon, toAddon } from "../../addons/sql.ts";
import { PROVE_BACKUPS } from "../../tasks.ts";
import { BackupRefusal } from "../../terms/backup-refusal.ts";
import { ADDON_TYPES } from "../../terms/services.ts";
import { holdLease, LEASE_SECONDS } from "../hold-lease.ts";
import { findKey } from "../sql.ts";
import * as sql from "./sql.ts";

const ATTEMPTS = 3;
const RETRY_SECONDS = 60;
/** Longer than any of them takes. */
const MOST_MS = 6 * 3_600_000;
const STOP_MS = 5_000;

const watchAge = createReadGauge({
  name: "berth_addon_backup_proof_age_seconds",
  help: "For how long no backup of an addon was restored to the side and read; 0 while none is to be; the same from all replicas",
});
const watchFailed = createReadGauge({
  name: "berth_addon_backup_proofs_failed",
  help: "Addons whose backup could not be restored to the side when it was last tried; the same from all replicas",
});

/** Reports on proofs, in each replica; nothing where they are off. */
export function watchProofs(pool: Pool, on: boolean): void {
  watchAge(async () => (on ? (await sql.proofState(pool)).ageSeconds : 0));
  watchFailed(async () => (on ? (await sql.proofState(pool)).failed : 0));
}

export type ProofDeps = {
  pool: Pool;
  backups: Pick<AddonBackups, "unsupported" | "prove" | "removeProof">;
  on: boolean;
  log: Logger;
};

/**
 * Restores a backup of one addon each night to the side, and throws it away (docs/addons.md#proofs). A process does so
 * while it holds the lease of the row; whoever takes it next removes first what that one left.
 */
export function startProving({ pool, backups, on, log }: ProofDeps) {
  const stopping = new AbortController();
  let underWay: Promise<void> | undefined;

  async function prove(taken: sql.TakenProof): Promise<void> {
    const { serviceId, backupId } = taken;
    const [addon, key] = await Promise.all([findAddon(pool, serviceId), findKey(pool, backupId)]);
    if (!addon || !key) throw new BackupRefusal("The backup is not there any more.");
    const lease = holdLease((seconds) => sql.renewProof(pool, taken, seconds));
    try {
      const signal = AbortSignal.any([lease.lost, stopping.signal, AbortSignal.timeout(MOST_MS)]);
      const ending = await backups.prove(toAddon(addon, false), key, signal);
      await sql.endProof(pool, taken, ending);
      log.info({ backup: backupId, serviceId, ...ending }, "a backup was restored to the side");
    } finally {
      lease.stop();
    }
  }

  async function proveOrPostpone(taken: sql.TakenProof): Promise<void> {
    const { serviceId, backupId, attempts } = taken;
    try {
      await prove(taken);
    } catch (error) {
      if (stopping.signal.aborted) return void (await sql.postponeProof(pool, taken, 0, true));
      if (await sql.isGone(pool, taken)) {
        // Who removed the addon removed only what was there then.
        await backups.removeProof(taken);
        return void (await sql.forgetProof(pool, taken));
      }
      log.warn({ err: error, backup: backupId, serviceId }, "a backup could not be restored to the side");
      const refused = error instanceof BackupRefusal;
      if (!refused && attempts + 1 < ATTEMPTS)
        return void (await sql.postponeProof(pool, taken, RETRY_SECONDS * (attempts + 1)));
      const unknown = `It could not be restored in ${ATTEMPTS} attempts. The log of the installation says why.`;
      await sql.endProof(pool, taken, { failure: refused ? error.message : unknown });
    }
  }

  async function begin(): Promise<void> {
    const reasons = await Promise.all(ADDON_TYPES.map((type) => backups.unsupported(type)));
    const types = ADDON_TYPES.filter((_, at) => reasons[at] === undefined);
    if (types.length > 0 && (await sql.beginProof(pool, types)) > 0) await sql.pruneProofs(pool);
  }

  async function takeOne(): Promise<Next> {
    if (underWay) return undefined;
    if (on) await begin();
    // Also where they are off: one that was begun before is ended.
    const taken = await sql.takeProof(pool, LEASE_SECONDS);
    if (taken) {
      underWay = proveOrPostpone(taken)
        .catch((err) =>
          log.warn({ err, serviceId: taken.serviceId }, "a proof could not be moved on; trying again"),
        )
        .finally(() => {
          underWay = undefined;
          task.wake();
        });
      return undefined;
    }
    const inMs = await sql.msUntilProof(pool);
    return inMs === undefined ? undefined : { inMs: Math.max(inMs, 100) };
  }

  const task = startTask(PROVE_BACKUPS, takeOne, { log });
  return {
    /** Interrupts what is under way, which begins again elsewhere. */
    async stop(): Promise<void> {
      stopping.abort();
      await task.stop();
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, STOP_MS);
      await Promise.race([underWay, late]);
      clearTimeout(timer);
    },
  };
}
