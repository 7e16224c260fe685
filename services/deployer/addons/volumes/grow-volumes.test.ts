import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  type AddonStorageFilling,
  AddonStorageFillingSchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import {
  type AuditRecorded,
  AuditRecordedSchema,
} from "../../../../proto/gen/berth/identity/v1/events_pb.ts";
import { connectBus } from "../../../kit/events/bus.ts";
import { startConsumer } from "../../../kit/events/consumer.ts";
import { on } from "../../../kit/events/handler.ts";
import { createLog } from "../../../kit/log.ts";
import { createEntitlements } from "../../../kit/plans.ts";
import { createPool } from "../../../kit/postgres/db.ts";
import { readConfig } from "../../../kit/process/config.ts";
import { metricsText } from "../../../kit/telemetry.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { fields } from "../../config.ts";
import { startLocalEngine } from "../../engine/local.ts";
import { createPrometheus } from "../../runtime/kubernetes/metrics/prometheus.ts";
import { createWebService, startDeployer, type TestDeployer } from "../../testing/testing.ts";
import type { Addon, AddonServers } from "../port.ts";
import { addonAdmin, withVolumes } from "../testing.ts";
import { growVolumes } from "./grow-volumes.ts";

const GIB = 1024 ** 3;
const log = createLog("deployer", "silent");
/** What the servers were asked for, by service. */
const made = new Map<string, Addon>();
/** What the kubelets report of volumes, by the name of their claim. */
const reported = new Map<string, { used: number; capacity: number }>();
let failing = false;
let refusal: string | undefined;
const told: AddonStorageFilling[] = [];
const audited: AuditRecorded[] = [];

const prometheus = createServer((_, response) => {
  if (failing) return response.writeHead(503).end("starting");
  const result = [...reported].flatMap(([claim, bytes]) =>
    Object.entries(bytes).map(([name, value]) => ({
      metric: { __name__: `kubelet_volume_stats_${name}_bytes`, persistentvolumeclaim: claim },
      value: [0, String(value)],
    })),
  );
  return response.end(JSON.stringify({ status: "success", data: { result } }));
});

let berth: TestDeployer;
let servers: AddonServers;
let stopListening: () => Promise<void>;

beforeAll(async () => {
  await once(prometheus.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(prometheus.address() as AddressInfo).port}`;
  const env = { ADDON_POSTGRES_URL: await addonAdmin() };
  berth = await startDeployer(env, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    servers = withVolumes(engine.addonServers, made, {
      choiceOf: () => ({ versions: [] }),
      cannotGrow: async () => refusal,
      listFilling: createPrometheus({ url, namespacePrefix: "berth" }).listFilling,
    });
    return { ...engine, addonServers: servers };
  });
  stopListening = listen();
});
beforeEach(() => {
  reported.clear();
  failing = false;
  refusal = undefined;
});
afterAll(async () => {
  await stopListening?.();
  await berth?.stop();
  prometheus.close();
});

function listen() {
  const pool = createPool(berth.database.url("variables"));
  const bus = connectBus(berth.nats.url, "test", log);
  const handlers = [
    on(AddonStorageFillingSchema, async (_tx, event) => void told.push(event)),
    on(AuditRecordedSchema, async (_tx, event) => void audited.push(event)),
  ];
  const consumer = startConsumer({ bus, pool, log, name: "test-deployer", from: "deployer", handlers });
  return async () => {
    await consumer.stop();
    await bus.close();
    await pool.end();
  };
}

/** A round of the task, with plans of at most so many GiB. */
const round = (planGib = 1_000) => {
  const entitlementsOf = createEntitlements(
    readConfig({ ...berth.env, PLAN_STORAGE: `{"enterprise":${planGib}}` }, fields),
  );
  return growVolumes({ pool: berth.pool, servers, entitlementsOf, log });
};

/** An addon that is ready. Its volume is reported as so full. */
async function addon(config: object) {
  const { catalog, environment, accountId } = await createWebService(berth.port);
  const { id } = await catalog.createService({ ...environment, name: "db", type: "postgres", config });
  const path = environment.at("db");
  await eventually("it runs", async () => (await catalog.getService(path)).status === "running");
  return {
    ...{ id, accountId },
    fill: (percent: number, gib: number) =>
      reported.set(`data-${id.replace("_", "-")}-0`, {
        used: Math.ceil((percent * gib * GIB) / 100),
        capacity: gib * GIB,
      }),
    change: (more: object) => catalog.updateService({ ...path, config: more }),
    size: async () => (await catalog.getService(path)).config?.storageGib,
    remove: () => catalog.deleteService({ ...path, confirmImpact: true }),
    /** What users were told of it, once that is so many times. */
    told: (times: number) =>
      eventually(`it is told ${times} times`, async () => {
        const found = told.filter(({ serviceId }) => serviceId === id);
        return found.length >= times && found;
      }),
    passes: (hours: number) =>
      berth.pool.query(
        "update services set addon_filling_quiet_until = addon_filling_quiet_until - make_interval(hours => $2) where id = $1",
        [id, hours],
      ),
  };
}

test("the deployer does it again and again where it can learn how full volumes are", async () => {
  await eventually("it does", async () => (await metricsText()).includes('task="grow-volumes"'));
});

test("a nearly full volume grows by a quarter, up to its limit; its server follows, and users are told", async () => {
  const { id, accountId, fill, size, told } = await addon({ storageGib: 10, storageMaxGib: 14 });
  fill(86, 9.8);
  await round();
  expect(await size()).toBe(13);
  await eventually("its server has it", async () => made.get(id)?.storageGib === 13);
  const event = { accountId, usedPercent: 86, storageGib: 10, grownToGib: 13, reason: "" };
  expect(await told(1)).toMatchObject([event]);
  const record = await eventually("it is audited", async () =>
    audited.find(({ target, action }) => target === id && action === "service.grow"),
  );
  expect(record).toMatchObject({
    actor: { kind: "service", id: "deployer" },
    metadata: { name: "db", from: "10", to: "13" },
  });

  // Not again before it has grown, although nothing reports it yet.
  fill(99, 9.8);
  await round();
  expect(await size()).toBe(13);
  fill(88, 12.7);
  await round();
  expect(await size()).toBe(14);
  fill(89, 13.7);
  await round();
  expect(await size()).toBe(14);
  expect((await told(2)).map(({ grownToGib }) => grownToGib)).toEqual([13, 14]);
});

test("one that does not grow by itself is told of from 90 % on, once a day, with what to do", async () => {
  const { fill, size, told, passes, change } = await addon({});
  fill(89, 10);
  await round();
  fill(92, 10);
  await round();
  await round();
  await passes(23);
  await round();
  expect(await told(1)).toMatchObject([
    {
      usedPercent: 92,
      storageGib: 10,
      grownToGib: 0,
      reason: expect.stringContaining("set config.storageGib"),
    },
  ]);
  await passes(2);
  fill(94, 10);
  await round();
  expect((await told(2)).at(-1)).toMatchObject({ usedPercent: 94 });
  expect(await size()).toBeUndefined();
  // Once it may, it grows at once, from what it has.
  await change({ storageMaxGib: 40 });
  await round();
  expect((await told(3)).at(-1)).toMatchObject({ storageGib: 10, grownToGib: 13 });
  expect(await size()).toBe(13);
});

test("it says what keeps a volume from growing: its limit, the plan, the cluster, or that it has not grown yet", async () => {
  const limited = await addon({ storageGib: 10, storageMaxGib: 10 });
  limited.fill(91, 10);
  await round();
  expect((await limited.told(1))[0]?.reason).toContain("config.storageMaxGib");

  const planned = await addon({ storageGib: 10, storageMaxGib: 40 });
  planned.fill(91, 10);
  await round(10);
  expect((await planned.told(1))[0]?.reason).toContain("plan");
  await round(11);
  expect((await planned.told(2)).at(-1)).toMatchObject({ grownToGib: 11 });

  const refused = await addon({ storageGib: 10, storageMaxGib: 40 });
  refused.fill(91, 10);
  refusal = "The cluster does not let the volume grow: no.";
  await round();
  expect((await refused.told(1))[0]).toMatchObject({
    grownToGib: 0,
    reason: expect.stringMatching(/^Fork .* no\.$/),
  });
  expect(await refused.size()).toBe(10);
  refusal = undefined;
  await round();
  expect(await refused.size()).toBe(13);

  refused.fill(95, 10);
  await refused.passes(1);
  await round();
  expect((await refused.told(3)).at(-1)).toMatchObject({
    ...{ storageGib: 10, grownToGib: 0 },
    reason: expect.stringContaining("13 GiB"),
  });
});

test("two deployers at once let it grow once, and tell of it once", async () => {
  const growing = await addon({ storageGib: 10, storageMaxGib: 100 });
  growing.fill(93, 10);
  const full = await addon({ storageGib: 10 });
  full.fill(93, 10);
  await Promise.all([round(), round(), round()]);
  expect(await growing.size()).toBe(13);
  expect(await growing.told(1)).toHaveLength(1);
  expect(await full.told(1)).toHaveLength(1);
});

test("one that is being deleted, or is unknown here, is left alone; a failure of one keeps no other from growing", async () => {
  const gone = await addon({ storageGib: 10, storageMaxGib: 100 });
  await gone.remove();
  gone.fill(99, 10);
  reported.set("data-svc-elsewhere-0", { used: 99, capacity: 100 });
  const broken = await addon({ storageGib: 10, storageMaxGib: 100 });
  broken.fill(98, 10);
  const sound = await addon({ storageGib: 10, storageMaxGib: 100 });
  sound.fill(97, 10);
  const { describe } = servers;
  servers.describe = async (one) => {
    if (one.serviceId === broken.id) throw new Error("the API of the cluster is away");
    return describe(one);
  };
  await expect(round()).rejects.toThrow("the API of the cluster is away");
  servers.describe = describe;
  expect([await broken.size(), await sound.size()]).toEqual([10, 13]);
  await round();
  expect(await broken.size()).toBe(13);
  expect(told.filter(({ serviceId }) => serviceId === gone.id)).toEqual([]);
});

test("without an answer of Prometheus a round fails, and nothing else does", async () => {
  const { fill, size, change } = await addon({ storageGib: 10, storageMaxGib: 100 });
  fill(93, 10);
  failing = true;
  await expect(round()).rejects.toThrow("503");
  await change({ size: "small" });
  failing = false;
  await round();
  expect(await size()).toBe(13);
});
