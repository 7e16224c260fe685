import { describe, expect, test } from "vitest";
import { DAY, decide, GRACE_MS, type Known, msUntilCheck, servedState } from "./decide.ts";
import type { Seen } from "./look-up.ts";

const NOW = Date.UTC(2026, 10, 26);
const HOUR = 3_600_000;
const served: Known = {
  state: "active",
  createdAt: NOW - 90 * DAY,
  provedAt: NOW - 60 * DAY,
  contested: false,
};
const seen = (proof: Seen["proof"], address: Seen["address"] = "missing"): Seen => ({
  found: [],
  proof,
  address,
});

describe("a domain that is served", () => {
  test("is released only when its proof was gone for 7 days, or somebody else has proved the host", () => {
    const lostAt = NOW - GRACE_MS;
    expect(decide(served, seen("missing"), NOW)).toMatchObject({ do: "serve", lostAt: NOW });
    expect(decide({ ...served, lostAt: lostAt + 1 }, seen("missing"), NOW)).toMatchObject({ do: "serve" });
    expect(decide({ ...served, lostAt }, seen("missing"), NOW)).toMatchObject({ do: "release" });
    expect(decide({ ...served, contested: true }, seen("missing"), NOW)).toMatchObject({ do: "release" });
  });

  test.each([{}, { contested: true }, { lostAt: NOW - 30 * DAY }])(
    "is never released by servers that do not answer, nor while it is proved: %o",
    (more) => {
      expect(decide({ ...served, ...more }, seen("unknown"), NOW).do).toBe("serve");
      expect(decide({ ...served, ...more }, seen("found"), NOW)).toEqual({ do: "serve" });
    },
  );

  test("waits for its certificate, and has failed without one for a day, until it is issued", () => {
    const host = { host: "shop.example.com", certificate: "pending" as const };
    const stateAfter = (ms: number) => servedState({ provedAt: NOW - ms }, host, "found", NOW).state;
    expect([stateAfter(HOUR), stateAfter(DAY + 1)]).toEqual(["issuing", "failed"]);
    const issued = { ...host, certificate: "issued" as const };
    expect(servedState({ provedAt: NOW - 9 * DAY }, issued, "found", NOW)).toEqual({ state: "active" });
  });

  test("is not looked up again before about a day, or an hour when its proof is gone", () => {
    const ms = (lostAt?: number) => msUntilCheck({ ...served, lostAt, checks: 3 }, NOW, 0.5);
    expect([ms(), ms(NOW)]).toEqual([DAY, HOUR]);
  });
});

test("a domain that is not proved is looked up more and more rarely, and never given up", () => {
  const after = (checks: number, days: number) =>
    msUntilCheck({ state: "pending_dns", createdAt: NOW - days * DAY, checks }, NOW, 0.5);
  expect([after(0, 0), after(3, 0), after(30, 10), after(30, 31), after(0, 31)]).toEqual([
    ...[5_000, 40_000, HOUR],
    ...[DAY, 5_000],
  ]);
});
