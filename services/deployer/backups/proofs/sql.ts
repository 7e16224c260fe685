import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import { epochMs } from "../../shared/epoch-ms.ts";
import type { AddonType } from "../../terms/services.ts";

/** Nightly backups begin before this hour (UTC), and the proof of a night after it. */
const BEGINS = "5 hours";
const NIGHT = `(now() at time zone 'UTC' - interval '${BEGINS}')::date`;
/** An addon whose backup was proved in this time waits while there are others. */
const LATELY = "7 days";
/** How long it is known how a proof ended. */
const KEPT = "90 days";

/**
 * Begins the proof of this night, unless it was begun: of the newest backup of an addon at random, of those that were not
 * proved lately if there are such. Returns how many it were.
 */
export function beginProof(db: Db, types: AddonType[]) {
  return execute(
    db,
    "proof_begin",
    `insert into proofs (night, backup_id, service_id, environment_id, type)
     select ${NIGHT}, b.id, s.id, s.environment_id, s.type
     from services s cross join lateral (
       select id from backups where service_id = s.id and status = 'succeeded' and trigger <> 'uploaded' and as_of is null
         and deleting_at is null order by id desc limit 1) b
     where s.type = any($1) and s.addon_state = 'ready' and s.deleting_at is null
       and not exists (select from proofs where night = ${NIGHT})
     order by exists (select from proofs p where p.service_id = s.id and p.status = 'succeeded'
       and p.finished_at > now() - interval '${LATELY}'), random()
     limit 1 on conflict do nothing`,
    [types],
  );
}

/** Forgets how proofs ended a long time ago. */
export function pruneProofs(db: Db) {
  const text = `delete from proofs where due_at is null and finished_at < now() - interval '${KEPT}'`;
  return execute(db, "proofs_prune", text, []);
}

export type TakenProof = {
  night: string;
  backupId: string;
  serviceId: string;
  environmentId: string;
  type: AddonType;
  attempts: number;
  turn: number;
};

/** Takes a proof that is due. It is due again when the lease ends. */
export function takeProof(db: Db, leaseSeconds: number) {
  return one<TakenProof>(
    db,
    "proof_take",
    `with due as (select night from proofs where due_at <= now() order by due_at limit 1 for update skip locked)
     update proofs p set due_at = now() + make_interval(secs => $1), turn = turn + 1
     from due where p.night = due.night
     returning p.night::text as night, p.backup_id as "backupId", p.service_id as "serviceId",
       p.environment_id as "environmentId", p.type, p.attempts, p.turn`,
    [leaseSeconds],
  );
}

/** Returns in how many ms a proof is due; undefined when none is. */
export async function msUntilProof(db: Db): Promise<number | undefined> {
  const text = `select ${epochMs("min(due_at)")} - ${epochMs("now()")} as "inMs" from proofs where due_at is not null`;
  return (await one<{ inMs: number | null }>(db, "proof_next", text, []))?.inMs ?? undefined;
}

/** SQL that is true while there is what a proof `p` is of. */
const STANDS = `exists (select from backups b join services s on s.id = b.service_id where b.id = p.backup_id
  and b.deleting_at is null and s.deleting_at is null)`;

/** Prolongs the lease of a proof. Returns 0 when its backup or its addon is gone, or it was taken again. */
export function renewProof(db: Db, { night, turn }: TakenProof, leaseSeconds: number) {
  return execute(
    db,
    "proof_renew",
    `update proofs p set due_at = now() + make_interval(secs => $3)
     where night = $1 and turn = $2 and status = 'running' and ${STANDS}`,
    [night, turn, leaseSeconds],
  );
}

export type ProofEnding = { counted: number } | { failure: string };

/** Records how a proof ended. Returns 0 when it was taken again. */
export function endProof(db: Db, { night, turn }: TakenProof, ending: ProofEnding) {
  const [counted, failure] = "counted" in ending ? [ending.counted, null] : [null, ending.failure];
  return execute(
    db,
    "proof_end",
    `update proofs set status = case when $4::text is null then 'succeeded' else 'failed' end, counted = $3, failure = $4,
       finished_at = now(), due_at = null
     where night = $1 and turn = $2 and status = 'running'`,
    [night, turn, counted, failure],
  );
}

/** Has a proof taken again, in a while, after an attempt that failed or was `interrupted`. */
export function postponeProof(db: Db, { night, turn }: TakenProof, seconds: number, interrupted = false) {
  return execute(
    db,
    "proof_postpone",
    `update proofs set due_at = now() + make_interval(secs => $3), attempts = attempts + $4
     where night = $1 and turn = $2 and due_at is not null`,
    [night, turn, seconds, interrupted ? 0 : 1],
  );
}

/** Whether the backup or the addon of a proof is gone, and nobody else took the proof. */
export async function isGone(db: Db, { night, turn }: TakenProof): Promise<boolean> {
  const text = `select night from proofs p where night = $1 and turn = $2 and status = 'running' and not ${STANDS}`;
  return (await one(db, "proof_gone", text, [night, turn])) !== undefined;
}

/** Forgets a proof whose backup or addon is gone, so that the night has another one. */
export function forgetProof(db: Db, { night, turn }: TakenProof) {
  const text = "delete from proofs where night = $1 and turn = $2 and status = 'running'";
  return execute(db, "proof_forget", text, [night, turn]);
}

/**
 * Returns how many addons have a backup that could not be restored when one was last tried, and for how many seconds none
 * could be: since the last one that could, since proofs began, or since there has been an addon that is backed up.
 */
export async function proofState(db: Db): Promise<{ failed: number; ageSeconds: number }> {
  const [state] = await many<{ failed: number; ageSeconds: number | null }>(
    db,
    "proofs_state",
    `select (
         select count(*)::int from (
           select distinct on (service_id) status, backup_id from proofs where status <> 'running'
           order by service_id, night desc) last
         join backups b on b.id = last.backup_id and b.deleting_at is null and b.kept_until is null
         where last.status = 'failed') as failed,
       (select extract(epoch from now() - greatest(
           (select coalesce(max(finished_at) filter (where status = 'succeeded'), min(started_at)) from proofs),
           min(s.created_at)))::float8
         from services s where s.addon_state = 'ready' and s.deleting_at is null and exists (
           select from backups b where b.service_id = s.id and b.status = 'succeeded' and b.deleting_at is null)
           and exists (select from proofs)) as "ageSeconds"`,
    [],
  );
  return { failed: state?.failed ?? 0, ageSeconds: Math.max(0, state?.ageSeconds ?? 0) };
}
