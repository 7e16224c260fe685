import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import { expect, test } from "vitest";
import type { Cancellation, Step } from "../sql.ts";
import { dependsOnSubscription, type NextStep, nextStep } from "./next-step.ts";

const DAY = 86_400;
const ENDED = 1_800_000_000;
const NOW = ENDED * 1_000;

const cancellation = (change: Partial<Cancellation> = {}): Cancellation => ({
  subscriptionId: "sub_1",
  accountId: "acc_1",
  kind: "annual",
  step: "asked",
  askedAt: timestampFromMs(NOW),
  endedAt: null,
  released: false,
  ...change,
});

const subscription = (change: Partial<Stripe.Subscription> = {}): Stripe.Subscription =>
  ({
    id: "sub_1",
    items: { object: "list", data: [], has_more: false, url: "" },
    status: "active",
    created: ENDED - 20 * DAY,
    ended_at: null,
    canceled_at: null,
    ...change,
  }) as Stripe.Subscription;

const next = (of: Partial<Cancellation>, about: Partial<Stripe.Subscription> = {}, now = NOW) =>
  nextStep(cancellation(of), dependsOnSubscription(cancellation(of)) ? subscription(about) : undefined, now);

test.each<[Step, NextStep["do"] | undefined]>([
  ["asked", "end"],
  ["ended", "plan-refunds"],
  ["refunding", "make-refunds"],
  ["review", undefined],
  ["done", undefined],
  ["denied", undefined],
])("after %s comes %s", (step, expected) => {
  expect(next({ step, endedAt: timestampFromMs(NOW) })?.do).toBe(expected);
});

test("an end of which nothing is known is found out: it happened, may yet happen, or never will", () => {
  const over = { status: "canceled", ended_at: ENDED } as const;
  expect(next({ step: "uncertain" }, over)).toEqual({ do: "record-end", at: ENDED });
  expect(next({ step: "asked" }, over)).toEqual({ do: "record-end", at: ENDED });
  expect(next({ step: "uncertain" }, {}, NOW + 600_000)).toBeUndefined();
  expect(next({ step: "uncertain" }, {}, NOW + 600_001)).toEqual({ do: "forget" });
});

test.each<[string, boolean, Partial<Cancellation>, number]>([
  ["an annual one in its first 14 days", true, {}, 14 * DAY - 1],
  ["an annual one after 14 days", false, {}, 14 * DAY],
  ["one that staff released", false, { released: true }, DAY],
  ["a second one", false, { kind: "duplicate" }, DAY],
  ["one that was not paid, as far as it was paid before", true, { kind: "unpaid" }, DAY],
])("whether the refund of %s waits for staff: %s", (_, review, of, age) => {
  const ended = { step: "ended" as const, endedAt: timestampFromMs(NOW), ...of };
  expect(next(ended, { created: ENDED - age })).toMatchObject({ at: ENDED, review });
});
