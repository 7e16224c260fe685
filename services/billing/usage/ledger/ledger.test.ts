import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import {
  ProjectDeletedSchema,
  ProjectRenamedSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
  ServiceRenamedSchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { createRandom } from "../../../kit/testing/random.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startUsage, type TestUsage } from "../testing.ts";

const DAY = 86_400;
const NANO = 2_250e-9;

let berth: TestUsage;
/** Now, by billing's clock. */
let now: number;
beforeAll(async () => {
  berth = await startUsage();
  now = berth.clock.now;
});
afterAll(() => berth?.stop());

const usage = (accountId: string) => berth.usage(accountId);
const accrued = async (accountId: string) => (await usage(accountId)).accruedUsd;
const usd = (amount: number) => Math.round(amount * 1e4) / 1e4;

test("an account that billing never heard of used nothing in the calendar month", async () => {
  const shown = await usage(newId("acc"));
  expect(
    [shown.periodStart, shown.periodEnd, shown.asOf].map((at) => timestampDate(at!).toISOString()),
  ).toEqual(["2027-03-01T00:00:00.000Z", "2027-04-01T00:00:00.000Z", "2027-03-10T00:00:00.000Z"]);
  expect(shown).toMatchObject({ accruedUsd: 0, netUsd: 0, projectedNetUsd: 0, services: [] });
  expect(shown.allowance).toMatchObject({ eligible: true, appliedUsd: 0, byType: {} });
  expect(shown.credit).toMatchObject({ includedUsd: 0, appliedUsd: 0, remainingUsd: 0 });
});

test("what runs accrues by the second, resized or not, and the lines say of what it is made", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId, "web", { service: "api", project: "shop" });
  const { report } = berth.interval(service, { replicas: 2 });
  await report("started", now - 3 * DAY);
  await report("resized", now - 2 * DAY, { size: "large", replicas: 1 });
  await report("heartbeat", now - 60);
  await berth.settled();
  const total = 2 * DAY * NANO + 2 * DAY * 24_000e-9;
  const shown = await usage(accountId);
  expect(shown.accruedUsd).toBe(usd(total));
  const allowance = usd(3 * DAY * NANO);
  expect(shown.services).toMatchObject([
    {
      serviceId: service.serviceId,
      serviceName: "api",
      projectName: "shop",
      type: "web",
      accruedUsd: usd(total),
      allowanceAppliedUsd: allowance,
    },
  ]);
  expect(shown.allowance!.byType).toMatchObject({
    web: { appliedUsd: allowance, coveredServiceId: service.serviceId },
  });
  const restOfMonth = 22 * DAY * (24_000e-9 - NANO);
  expect(shown.projectedNetUsd).toBeCloseTo(shown.netUsd + restOfMonth, 3);
  const { data } = await berth.lines(accountId);
  expect(data).toMatchObject([
    { size: "large", replicas: 1, seconds: 2 * DAY, nanoUsdPerSecond: 24_000, priceVersion: "2026-11" },
    { size: "nano", replicas: 2, seconds: DAY, nanoUsdPerSecond: 2_250 },
  ]);
  expect(data.map(({ endedAt }) => endedAt === undefined)).toEqual([true, false]);
  expect(data.reduce((sum, line) => sum + line.accruedUsd, 0)).toBeCloseTo(total, 9);
});

test("in any order, doubled and through two replicas, events come to what they come to in order", async () => {
  const random = createRandom(inject("seed"));
  for (let round = 0; round < 4; round++) {
    const [ordered, shuffled] = [newId("acc"), newId("acc")];
    const reports = [ordered, shuffled].map((accountId) => {
      const service = berth.service(accountId);
      return Array.from({ length: 3 }, () => berth.interval(service).report);
    });
    const events: Parameters<(typeof reports)[0][0]>[] = [];
    const indexes: number[] = [];
    let at = now - 5 * DAY;
    for (let interval = 0; interval < 3; interval++) {
      const changes = random.below(4);
      for (let seq = 0; seq <= changes + 1; seq++) {
        at += random.between(0, 20_000) + random.next();
        const kind =
          seq === 0 ? "started" : seq > changes ? "stopped" : random.of(["resized", "heartbeat"] as const);
        const amount = kind === "resized" ? { replicas: random.between(1, 5) } : {};
        events.push([kind, at, { seq, ...amount }]);
        indexes.push(interval);
      }
    }
    // An event carries the whole state: each is made in order, whatever the order of delivery.
    let replicas = 1;
    for (const [position, [kind, , more]] of events.entries()) {
      if (kind === "started") replicas = 1;
      replicas = more?.replicas ?? replicas;
      events[position]![2] = { ...more, replicas };
    }
    for (const [position, event] of events.entries()) await reports[0]![indexes[position]!]!(...event);
    const deliveries = [...events.keys(), ...events.keys()].map((position) => ({
      position,
      key: random.next(),
    }));
    for (const { position } of deliveries.toSorted((a, b) => a.key - b.key))
      await reports[1]![indexes[position]!]!(...events[position]!);
    await berth.settled();
    const [first, second] = await Promise.all(
      [ordered, shuffled].map((id) => berth.lines(id, { limit: 100 })),
    );
    const plain = (page: typeof first) =>
      page!.data.map(({ startedAt, endedAt, seconds, replicas }) => ({
        startedAt,
        endedAt,
        seconds,
        replicas,
      }));
    expect(plain(second)).toEqual(plain(first));
    expect(await accrued(shuffled)).toBe(await accrued(ordered));
  }
});

test("a start that is lost counts from the first sign of life on, and in full once it comes", async () => {
  const accountId = newId("acc");
  const { report } = berth.interval(berth.service(accountId));
  await report("heartbeat", now - DAY, { seq: 1 });
  await report("heartbeat", now - 10, { seq: 2 });
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(DAY * NANO));
  await report("started", now - 2 * DAY, { seq: 0 });
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(2 * DAY * NANO));
});

test("a stop that is lost: the service counts until it was last seen, and again once it is seen again", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId);
  const { report } = berth.interval(service);
  await report("started", now - 3 * DAY);
  await report("heartbeat", now - 2 * DAY);
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(DAY * NANO));
  expect((await usage(accountId)).projectedNetUsd).toBe(0);
  const { data } = await berth.lines(accountId);
  expect(data[0]!.endedAt?.seconds).toBe(BigInt(now - 2 * DAY));
  await report("heartbeat", now - 300);
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(3 * DAY * NANO));
  const next = berth.interval(service, { size: "small" });
  await next.report("started", now - DAY);
  await next.report("heartbeat", now - 30);
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(2 * DAY * NANO + DAY * 4_500e-9));
});

test("a stop before its start costs nothing, and an event from the future waits until it is not", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId);
  const backwards = berth.interval(service);
  await backwards.report("started", now - DAY);
  await backwards.report("stopped", now - 2 * DAY);
  await berth.settled();
  expect(await accrued(accountId)).toBe(0);
  const early = berth.interval(service);
  await early.report("started", now + 400);
  const refused = () =>
    berth.logLines.some((line) => line.includes(`${early.intervalId} is 400 s in the future`));
  await eventually("the event is refused", async () => refused());
  expect((await berth.lines(accountId)).data).toEqual([]);
  berth.clock.now += 900;
  await berth.settled();
  expect(await accrued(accountId)).toBe(usd(500 * NANO));
  berth.clock.now = now;
});

test("names are asked for until they are known, are kept after a deletion, and no read waits for them", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId, "worker", { service: "jobs", project: "back-office" });
  const first = berth.interval(service);
  berth.neighbours.proxy.shut();
  await first.report("started", now - 4_000);
  await first.report("heartbeat", now - 3_500);
  await berth.settled();
  const { serviceId, projectId } = service;
  expect((await usage(accountId)).services).toMatchObject([
    { serviceName: serviceId, projectName: projectId },
  ]);
  await berth.neighbours.proxy.open();
  await first.report("heartbeat", now - 3_000);
  await berth.settled();
  await first.report("heartbeat", now - 300);
  await first.report("stopped", now - 200);
  await berth.settled();
  berth.neighbours.services.delete(serviceId);
  const named = { serviceName: "jobs", projectName: "back-office" };
  expect((await usage(accountId)).services).toMatchObject([named]);
  const asked = () => berth.neighbours.described.filter((id) => id === serviceId).length;
  const untilKnown = asked();
  const again = berth.interval(service);
  await again.report("started", now - 100);
  await berth.settled();
  expect((await usage(accountId)).services).toMatchObject([named]);
  await berth.publish("deployer", ProjectRenamedSchema, accountId, { projectId, name: "front-office" });
  await berth.settled();
  expect((await usage(accountId)).services).toMatchObject([{ ...named, projectName: "front-office" }]);
  expect(asked()).toBe(untilKnown);
});

test("a service has its newest name, in whatever order its events arrive", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId);
  const named = (name: string, s: number) => ({
    ...{ ...service, name, type: "web" },
    namedAt: timestampFromMs((now + s) * 1_000),
  });
  const rename = (name: string, s: number) =>
    berth.publish("deployer", ServiceRenamedSchema, accountId, named(name, s));
  await rename("newest", 2);
  await rename("newer", 1);
  await berth.publish("deployer", ServiceCreatedSchema, accountId, named("first", 0));
  const { report } = berth.interval(service);
  await report("started", now - 100);
  await berth.settled();
  expect((await usage(accountId)).services).toMatchObject([{ serviceName: "newest" }]);
});

test("what is deleted before billing hears of its usage has the names that the events say", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId);
  berth.neighbours.services.delete(service.serviceId);
  const about = { ...service, name: "gone", type: "web" };
  await berth.publish("deployer", ServiceCreatedSchema, accountId, about);
  const { report } = berth.interval(service);
  await report("started", now - 100);
  await report("stopped", now - 50);
  await berth.publish("deployer", ServiceDeletedSchema, accountId, { ...about, withEnvironment: true });
  await berth.publish("deployer", ProjectDeletedSchema, accountId, { ...service, name: "old-shop" });
  await berth.settled();
  expect((await usage(accountId)).services).toMatchObject([{ serviceName: "gone", projectName: "old-shop" }]);
});

test("no second of a service can be recorded twice, by whatever fault", async () => {
  const accountId = newId("acc");
  const service = berth.service(accountId);
  const { report } = berth.interval(service);
  await report("started", now - 2 * DAY);
  await report("stopped", now - DAY);
  await berth.settled();
  const copy = (shift: number) =>
    berth.pool.query(
      `insert into usage_segments select interval_id || 'x', seq, account_id, service_id, service_number, size, replicas,
         rate, price_version, started_at + $2 * interval '1 second', ended_at + $2 * interval '1 second', last_seen_at
       from usage_segments where service_id = $1`,
      [service.serviceId, shift],
    );
  await expect(copy(DAY - 1)).rejects.toMatchObject({ constraint: "usage_segments_once" });
  await copy(DAY);
});
