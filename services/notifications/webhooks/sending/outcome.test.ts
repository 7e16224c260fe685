import { expect, test } from "vitest";
import { MAX_TRIES, outcomeOf } from "./outcome.ts";

const after = (tries: number, status: number, kind = "deploy.ready", random = () => 0) =>
  outcomeOf({ kind, tries }, { status }, random);

test("what fails is tried about 12 times more, with growing pauses, for at least three days", () => {
  const pauses = [];
  for (let tries = 1; tries < MAX_TRIES; tries++) {
    const outcome = after(tries, 500);
    expect(outcome).toMatchObject({ state: "pending", last: false });
    expect(after(tries, 500, "deploy.ready", () => 0.999).retrySeconds).toBeGreaterThan(outcome.retrySeconds);
    pauses.push(outcome.retrySeconds);
  }
  expect(pauses).toHaveLength(12);
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
  const hours = pauses.reduce((sum, one) => sum + one, 0) / 3_600;
  expect(hours).toBeGreaterThan(72);
  expect(hours).toBeLessThan(73);
  expect(after(MAX_TRIES, 500)).toMatchObject({ state: "failed", last: true });
});

test.each([200, 201, 204, 299])("%d is success", (status) =>
  expect(after(1, status)).toMatchObject({ state: "delivered", gone: false }),
);

test.each([101, 301, 302, 307, 308, 400, 401, 404, 429, 500, 503])("%d is tried again", (status) =>
  expect(after(1, status).state).toBe("pending"),
);

test("410 ends it at once, a test is sent once, and what was always interrupted does not count against the receiver", () => {
  expect(after(1, 410)).toMatchObject({ state: "failed", gone: true, last: false });
  expect(after(1, 500, "webhook.test")).toMatchObject({ state: "failed", last: false });
  expect(outcomeOf({ kind: "deploy.ready", tries: MAX_TRIES + 1 }, { error: "interrupted" })).toMatchObject({
    state: "failed",
    last: false,
  });
});
