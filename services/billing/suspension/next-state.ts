// Times are in seconds since 1970.

/** Why services beyond the allowance are stopped: no plan pays for them, or the owner's spend limit is reached. */
export type Reason = "free_plan" | "spend_limit";

/** A stage of a grace period, at which owners are notified. */
export type Stage = "started" | "halfway" | "last_day" | "over";

/** What is recorded of an account. */
export type Recorded = {
  /** Whether it may run more than the allowance, and no plan pays for it. */
  needsPlan: boolean;
  graceFrom: number | null;
  graceUntil: number | null;
  /** How many stages of the grace period were announced. */
  stages: number;
  /** The end of the period whose spend limit is reached. */
  limitUntil: number | null;
  reason: Reason | null;
  revision: number;
  changedAt: number | null;
  announcedAt: number | null;
};

/** What is recorded next, and what is announced of it. */
export type Next = {
  graceFrom: number | null;
  graceUntil: number | null;
  stages: number;
  reason: Reason | null;
  revision: number;
  changedAt: number | null;
  announcedAt: number | null;
  /** When to look again; undefined when only a change of the account changes anything. */
  checkAt: number | undefined;
  /** Whether the state is announced, changed or again. */
  announces: boolean;
  /** The stage that was reached; of several that passed while nothing ran, the last. */
  stage: Stage | undefined;
  /** Why services were stopped that start again. */
  resumes: Reason | undefined;
};

const HOUR = 3_600;
const DAY = 86_400;
/** How long a change is repeated that leaves nothing in force. */
const REPEATED_SECONDS = 7 * DAY;

/** Returns what follows for an account at a time. Pure. */
export function nextState(recorded: Recorded, now: number, graceSeconds: number): Next {
  const grace = graceOf(recorded, now, graceSeconds);
  const stages = grace ? stagesOf(grace) : [];
  const passed = stages.filter(({ at }) => at <= now).length;
  const { limitUntil } = recorded;
  const limited = limitUntil !== null && now < limitUntil;
  const isOver = grace !== undefined && now >= grace.until;
  const reason = isOver ? "free_plan" : limited ? "spend_limit" : null;
  const graceUntil = grace?.until ?? null;
  const changed = reason !== recorded.reason || graceUntil !== recorded.graceUntil;
  const revision = recorded.revision + Number(changed);
  const changedAt = changed ? now : recorded.changedAt;
  const lasts = reason !== null || graceUntil !== null;
  const repeatAt = changed ? now : repetitionOf(recorded, lasts);
  const announces = revision > 0 && repeatAt !== undefined && repeatAt <= now;
  const announcedAt = announces ? now : recorded.announcedAt;
  return {
    graceFrom: grace?.from ?? null,
    graceUntil,
    stages: passed,
    reason,
    revision,
    changedAt,
    announcedAt,
    checkAt: earliest(
      stages[passed]?.at,
      limited ? limitUntil : undefined,
      repetitionOf({ changedAt, announcedAt }, lasts),
    ),
    announces,
    stage: passed > recorded.stages ? stages[passed - 1]?.stage : undefined,
    resumes: recorded.reason !== null && reason === null ? recorded.reason : undefined,
  };
}

type Grace = { from: number; until: number };

/** Returns the grace period of an account: the one that has begun, or one that begins now. */
function graceOf({ needsPlan, graceFrom, graceUntil }: Recorded, now: number, graceSeconds: number) {
  if (!needsPlan) return undefined;
  if (graceFrom !== null && graceUntil !== null) return { from: graceFrom, until: graceUntil };
  return { from: now, until: now + graceSeconds };
}

/** Returns when the stages of a grace period are; short ones have fewer. */
function stagesOf({ from, until }: Grace): { stage: Stage; at: number }[] {
  const half = Math.floor((from + until) / 2);
  const lastDay = until - DAY;
  return [
    ...(until > from ? [{ stage: "started" as const, at: from }] : []),
    ...(half > from && half < lastDay ? [{ stage: "halfway" as const, at: half }] : []),
    ...(lastDay > from ? [{ stage: "last_day" as const, at: lastDay }] : []),
    { stage: "over", at: until },
  ];
}

/** Returns when a state is announced again: after an hour, then after as long as it has been so, at most a day. */
function repetitionOf(
  { changedAt, announcedAt }: Pick<Recorded, "changedAt" | "announcedAt">,
  lasts: boolean,
): number | undefined {
  if (changedAt === null || announcedAt === null) return undefined;
  const age = announcedAt - changedAt;
  if (!lasts && age >= REPEATED_SECONDS) return undefined;
  return announcedAt + Math.min(DAY, Math.max(HOUR, age));
}

function earliest(...times: (number | null | undefined)[]): number | undefined {
  const known = times.filter((time) => typeof time === "number");
  return known.length > 0 ? Math.min(...known) : undefined;
}
