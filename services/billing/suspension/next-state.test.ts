import { expect, test } from "vitest";
import { nextState, type Recorded } from "./next-state.ts";

const DAY = 86_400;
const NOW = 1_800_000_000;

const NOTHING: Recorded = {
  needsPlan: false,
  graceFrom: null,
  graceUntil: null,
  stages: 0,
  limitUntil: null,
  reason: null,
  revision: 0,
  changedAt: null,
  announcedAt: null,
};

/** Goes on from a state, always when it says, until a time. Returns what was announced, with the day. */
function follow(recorded: Recorded, days: number, graceDays = 7) {
  const told: string[] = [];
  let state = recorded;
  let at = NOW;
  const day = () => (at - NOW) / DAY;
  while (at <= NOW + days * DAY) {
    const next = nextState(state, at, graceDays * DAY);
    if (next.revision > state.revision) told.push(`${day()} ${next.reason ?? "may run"}`);
    if (next.stage) told.push(`${day()} ${next.stage}`);
    if (next.resumes) told.push(`${day()} resumes ${next.resumes}`);
    state = { ...state, ...next };
    if (next.checkAt === undefined) break;
    expect(next.checkAt).toBeGreaterThan(at);
    at = next.checkAt;
  }
  return { told, state };
}

test("a grace period is announced when it begins, in its middle, a day before its end, and at its end", () => {
  const { told, state } = follow({ ...NOTHING, needsPlan: true }, 30);
  expect(told).toEqual([
    ...["0 may run", "0 started", "3.5 halfway", "6 last_day"],
    ...["7 free_plan", "7 over"],
  ]);
  expect(state).toMatchObject({ reason: "free_plan", graceUntil: NOW + 7 * DAY, revision: 2 });
});

test.each([
  [0, ["0 free_plan", "0 over"]],
  [1, ["0 may run", "0 started", "1 free_plan", "1 over"]],
  [2, ["0 may run", "0 started", "1 last_day", "2 free_plan", "2 over"]],
])("a grace period of %i days: %j", (days, expected) => {
  expect(follow({ ...NOTHING, needsPlan: true }, 30, days).told).toEqual(expected);
});

test("a plan ends the grace period or the suspension, also after stages that passed while nothing ran", () => {
  const grace = {
    ...NOTHING,
    needsPlan: true,
    graceFrom: NOW - 5 * DAY,
    graceUntil: NOW + 2 * DAY,
    revision: 3,
  };
  expect(nextState({ ...grace, stages: 1 }, NOW, 7 * DAY)).toMatchObject({ stage: "halfway", stages: 2 });
  expect(nextState({ ...grace, stages: 1 }, NOW + 9 * DAY, 7 * DAY)).toMatchObject({
    stage: "over",
    stages: 4,
  });
  const paid = nextState({ ...grace, needsPlan: false, reason: "free_plan" }, NOW, 7 * DAY);
  expect(paid).toMatchObject({
    reason: null,
    graceUntil: null,
    resumes: "free_plan",
    revision: 4,
    stages: 0,
  });
});

test("a reached spend limit holds until its period ends, and a grace period that is over holds longer", () => {
  const limited = { ...NOTHING, limitUntil: NOW + 3 * DAY };
  expect(follow(limited, 5).told).toEqual(["0 spend_limit", "3 may run", "3 resumes spend_limit"]);
  const both = { ...limited, needsPlan: true };
  expect(
    follow(both, 20).told.filter((one) => !one.includes("last_day") && !one.includes("halfway")),
  ).toEqual([
    ...["0 spend_limit", "0 started", "3 may run", "3 resumes spend_limit"],
    ...["7 free_plan", "7 over"],
  ]);
});

test("a state is announced again after an hour, then less often, at least daily as long as something holds", () => {
  const announced: number[] = [];
  let state: Recorded = { ...NOTHING, needsPlan: true };
  for (let at = NOW; at < NOW + 20 * DAY; ) {
    const next = nextState(state, at, 0);
    if (next.announces) announced.push((at - NOW) / 3_600);
    state = { ...state, ...next };
    at = next.checkAt!;
  }
  expect(announced.slice(0, 8)).toEqual([0, 1, 2, 4, 8, 16, 32, 56]);
  expect(state.revision).toBe(1);
  const resumed = nextState({ ...state, needsPlan: false }, NOW + 20 * DAY, 0);
  expect(resumed).toMatchObject({ announces: true, revision: 2 });
  const old = { ...NOTHING, revision: 2, changedAt: NOW - 8 * DAY, announcedAt: NOW - 1 };
  expect(nextState(old, NOW, 0)).toMatchObject({ announces: false, checkAt: undefined });
});

test("an account of which nothing holds is never announced", () => {
  expect(nextState(NOTHING, NOW, 7 * DAY)).toMatchObject({
    announces: false,
    revision: 0,
    checkAt: undefined,
  });
});
