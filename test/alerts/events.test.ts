import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MemberRemovedSchema } from "../../proto/gen/berth/identity/v1/events_pb.ts";
import { connectKube } from "../../services/deployer/kube/client.ts";
import { ConfigMap } from "../../services/deployer/kube/kinds.ts";
import { startInformer } from "../../services/deployer/kube/watch/informer.ts";
import { type Bus, connectBus } from "../../services/kit/events/bus.ts";
import { startConsumer } from "../../services/kit/events/consumer.ts";
import { on } from "../../services/kit/events/handler.ts";
import { watchEvents } from "../../services/kit/events/metrics.ts";
import { emit, startRelay } from "../../services/kit/events/outbox.ts";
import { createLog } from "../../services/kit/log.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { migrate } from "../../services/kit/postgres/migrate.ts";
import { replay } from "../../services/kit/replay.ts";
import { metricsText } from "../../services/kit/telemetry.ts";
import { testDatabase } from "../../services/kit/testing/testing.ts";
import { startKubeApi } from "../support/kube-api/server.ts";
import { Refusal } from "../support/kube-api/store.ts";
import { testNats } from "../support/servers/nats.ts";
import { expectAlert, metricIn, promtool, scraper } from "./evaluate.ts";

describe.skipIf(!promtool)("an operator is alerted", () => {
  const log = createLog("alerts", "silent");
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let nats: Awaited<ReturnType<typeof testNats>>;
  let pool: Pool;
  let bus: Bus;
  beforeAll(async () => {
    [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
    pool = createPool(database.url("identity"));
    await migrate(pool);
    bus = connectBus(nats.url, "alerts", log);
  });
  afterAll(async () => {
    await bus?.close();
    await pool?.end();
    await Promise.all([database?.drop(), nats?.remove()]);
  });

  const scrape = scraper(metricsText);

  test("that a handler gave up an event, until it is sent again", async () => {
    let broken = true;
    const failing = on(MemberRemovedSchema, async () => {
      if (broken) throw new Error("cannot digest this");
    });
    const shared = { bus, log };
    const consumer = startConsumer({
      ...{ ...shared, pool, name: "stumbling", from: "identity", handlers: [failing], retryMs: 1 },
    });
    const relay = startRelay({ ...shared, url: database.url("identity") });
    watchEvents({ pool, bus });
    const before = await scrape.untilZero("berth_dead_letters_waiting");
    await emit(pool, MemberRemovedSchema, "acc_1", { accountId: "acc_1", userId: "usr_1" });
    const counted = await scrape.until("berth_dead_letters_total", (count) => count === 1);
    expect(counted).toMatch(/^berth_dead_letters_total\{consumer="stumbling".*\} 1$/m);
    const during = await scrape.until("berth_dead_letters_waiting", (count) => count === 1);
    broken = false;
    await replay(nats.url, "stumbling");
    const after = await scrape.untilZero("berth_dead_letters_waiting");
    await Promise.all([consumer.stop(), relay.stop()]);
    await expectAlert("BerthDeadLetters", { before, during, after });
  });

  test("that events do not flow, while NATS is away", async () => {
    watchEvents({ pool, bus });
    const before = await scrape.untilZero("berth_events_stopped");
    await nats.stop();
    const during = await scrape.until("berth_events_stopped", (stopped) => stopped === 1);
    nats = await nats.restart();
    const after = await scrape.untilZero("berth_events_stopped");
    await expectAlert("BerthEventsStopped", { before, during, after });
  });

  test("that the API server refuses a watch", async () => {
    const api = await startKubeApi();
    const before = await metricsText();
    api.beforeEach(({ verb }) => {
      if (verb === "watch") throw new Refusal(403, "configmaps is forbidden");
    });
    const informer = startInformer(connectKube(api.config), ConfigMap, {
      ...{ namespace: "shop", labels: "app=web", log, changed: () => {}, random: () => 0 },
    });
    // Tests that ran before in this process have counted too.
    const earlier = metricIn(before, "berth_watch_restarts_total") ?? 0;
    const during = await scrape.until("berth_watch_restarts_total", (count) => count > earlier + 2);
    await Promise.all([informer.stop(), api.stop()]);
    await expectAlert("BerthWatchesBreak", { before, during, after: during });
  });
});
