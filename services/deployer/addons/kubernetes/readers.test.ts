import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { readConfig } from "../../../kit/process/config.ts";
import { connectKube } from "../../kube/client.ts";
import { Namespace, Pod, PodMetrics, PostgresCluster, StatefulSet } from "../../kube/kinds.ts";
import { label } from "../../kube/names.ts";
import { lokiFields, lokiOptions } from "../../runtime/kubernetes/logs/config.ts";
import { startLoki } from "../../runtime/kubernetes/logs/testing.ts";
import type { LogLine } from "../../runtime/port.ts";
import type { AddonEngine, AddonType } from "../../terms/services.ts";
import { createKubernetesAddons } from "./adapter.ts";
import { createCnpgAddons } from "./cnpg/adapter.ts";
import { createAddonEngines } from "./engines.ts";
import { createPoolers } from "./pooler/adapter.ts";

const [NAMESPACE, DB] = ["berth-env-1", "svc_1"];
const labels = (serviceId: string, kind: string) => ({
  [label("serviceId")]: serviceId,
  [label("environmentId")]: "env_1",
  [label("kind")]: kind,
});

let api: KubeApi;
let loki: Awaited<ReturnType<typeof startLoki>>;
let addons: ReturnType<typeof createAddonEngines>;
let measured: typeof addons;

beforeAll(async () => {
  [api, loki] = await Promise.all([startKubeApi(), startLoki()]);
  const options = {
    ...{
      kube: connectKube(api.config),
      namespacePrefix: "berth",
      watch: "cluster" as const,
      user: 999,
      dns: {},
    },
    log: { info() {}, warn() {}, error: console.error },
    ...{ ensureNamespace: async () => {}, hasNamespace: () => true },
    images: { postgres: "postgres:18", redis: "redis:8" },
    ...{ storage: { size: "1Gi" }, patchImages: { postgres: [], redis: [] } },
  };
  const fields = readConfig({ LOKI_URL: loki.url, LOKI_TENANT: "berth" }, lokiFields);
  const poolers = createPoolers({ ...options, dns: {} });
  const given = { ...options, loki: lokiOptions(fields), engine: "auto" as const, poolers };
  measured = createAddonEngines({
    ...{ ...given, sets: createKubernetesAddons(options), prometheusUrl: "http://127.0.0.1:9" },
  });
  addons = createAddonEngines({
    ...{ ...given, sets: createKubernetesAddons(options) },
    cnpg: createCnpgAddons({
      ...options,
      images: ["postgres:18"],
      operatorNamespace: "cnpg-system",
      egress: [],
    }),
  });
});
beforeEach(() => {
  if (api.store.find(Namespace, NAMESPACE)) api.store.remove(Namespace, NAMESPACE);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
});
afterAll(async () => {
  await Promise.all([addons?.stop(), measured?.stop()]);
  await Promise.all([api?.stop(), loki?.stop()]);
});

const own = { namespace: NAMESPACE };
/** An hour ago, within the days that Loki is asked for. */
const BEGIN = Math.floor(Date.now() / 1_000) * 1_000 - 3_600_000;
const at = (second: number) => new Date(BEGIN + second * 1_000).toISOString().replace("Z", "000001Z");

type Server = { serviceId?: string; kind?: string; container?: string; status?: V1Pod["status"] };

/** Adds a pod with what its container wrote, each line at a second of its own. */
function addPod(name: string, lines: string[], { serviceId = DB, ...more }: Server = {}) {
  const { kind = "addon", container = "postgres", status } = more;
  const metadata = { name, labels: labels(serviceId, kind) };
  api.store.put({ ...Pod, ...own }, { metadata, spec: { containers: [{ name: container }] }, status });
  api.podLogs.set(
    name,
    lines.map((line, second) => `${at(second)} ${line}`),
  );
}

const addSet = (serviceId = DB) =>
  api.store.put({ ...StatefulSet, ...own }, { metadata: { name: "db", labels: labels(serviceId, "addon") } });
const addCluster = () =>
  api.store.put({ ...PostgresCluster, ...own }, { metadata: { name: "db", labels: labels(DB, "addon") } });

const query = (engine?: AddonEngine, type: AddonType = "postgres") => ({
  ...{ serviceId: DB, environmentId: "env_1", limit: 100, addon: { type, engine } },
});
const messages = (lines: LogLine[]) => lines.map(({ message }) => message);

test("the log of an addon has what its server wrote, without what a neighbour or a copy of its data did", async () => {
  addSet();
  addPod("db-0", ["LOG:  starting PostgreSQL 18", "LOG:  ready"]);
  addPod("db-copy-abcde", ["dumping"], { kind: "copy" });
  addPod("cache-0", ["Ready to accept connections"], { serviceId: "svc_2", container: "redis" });
  const { lines } = await addons.logs(query());
  expect(messages(lines)).toEqual(["LOG:  ready", "LOG:  starting PostgreSQL 18"]);
  expect(lines[0]).toMatchObject({ replica: "0", version: 0, stream: "stdout" });
  expect((await addons.logs({ ...query(), version: 1 })).lines).toEqual([]);
  api.store.remove({ ...StatefulSet, ...own }, "db");
  expect((await addons.logs(query())).lines).toEqual([]);
});

test("a stream goes on with the server that takes the place of another under the same name", async () => {
  addSet();
  addPod("db-0", ["before"]);
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const { message } of addons.followLogs({ ...query(), tail: 10 }, stop.signal)) {
    seen.push(message);
    if (message === "after") stop.abort();
    if (message !== "before") continue;
    api.store.remove({ ...Pod, ...own }, "db-0");
    addPod("db-0", ["", "after"]);
  }
  expect(seen.filter((message) => message !== "")).toEqual(["before", "after"]);
});

test("of CloudNativePG's lines those of PostgreSQL are shown, in its own words, and none of the operator", async () => {
  addCluster();
  const json = (members: object) => JSON.stringify({ level: "info", ts: "2026-11-20T10:00:00Z", ...members });
  const record = (members: object) => json({ logger: "postgres", msg: "record", record: members });
  const error = {
    ...{ error_severity: "ERROR", message: 'relation "t" does not exist', user_name: "addon_1" },
    ...{ hint: "Try another.", query: "select *\nfrom t" },
  };
  const fake = record({ error_severity: "LOG", message: "nested" });
  addPod(
    "db-1",
    [
      json({ msg: "Starting webserver", address: "10.0.0.7:8000" }),
      json({ logger: "postgres", msg: "LOG:  redirecting log output", pipe: "stderr" }),
      record({ error_severity: "LOG", message: "checkpoint complete" }),
      ...Array.from({ length: 300 }, () => json({ logger: "wal-archive", msg: "archived to s3://bucket" })),
      record(error),
      json({ logger: "instance-manager", msg: fake }),
      "panic: not JSON",
      '"logger":"postgres"',
    ],
    { kind: "instance" },
  );
  addPod("db-1-initdb-abcde", [record({ message: "initdb" })], { kind: "instance", container: "initdb" });
  const expected = [
    "LOG:  redirecting log output",
    "LOG:  checkpoint complete",
    'ERROR:  relation "t" does not exist',
    "HINT:  Try another.",
    "STATEMENT:  select *",
    "from t",
  ];
  const { lines } = await addons.logs(query("cnpg"));
  expect(messages(lines)).toEqual(expected.toReversed());
  expect(lines[0]).toMatchObject({ replica: "1", version: 0 });
  const paged: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await addons.logs({ ...query("cnpg"), limit: 1, cursor });
    paged.push(...messages(page.lines));
    cursor = page.nextCursor;
  }
  expect(paged).toEqual(expected.toReversed());
});

test("what Loki keeps of servers that are gone is there too, once, and nothing of the operator", async () => {
  addCluster();
  const record = (message: string) =>
    JSON.stringify({ logger: "postgres", msg: "record", record: { message } });
  const collect = (name: string, second: number, message: string) => {
    const nanos = BigInt(BEGIN + second * 1_000) * 1_000_000n + 1n;
    const ofPod = { namespace: NAMESPACE, pod: name, container: "postgres", berth_dev_service: DB };
    loki.push("berth", { labels: ofPod, nanos, message });
  };
  addPod("db-2", [record("both"), record("new")], { kind: "instance" });
  collect("db-2", 0, record("both"));
  collect("db-1", -2, record("one\nand two"));
  for (let n = 0; n < 9; n++) collect("db-1", -1, JSON.stringify({ logger: "wal-archive", msg: "archived" }));
  const expected = ["LOG:  new", "LOG:  both", "and two", "LOG:  one"];
  const paged: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await addons.logs({ ...query("cnpg"), limit: 1, cursor });
    paged.push(...messages(page.lines));
    cursor = page.nextCursor;
  }
  expect(paged).toEqual(expected);
  expect(messages((await addons.logs(query("cnpg"))).lines)).toEqual(expected);
});

test("what addons use is measured by their pods: those that are ready, their restarts, CPU and memory", async () => {
  addSet();
  const isReady = (status: string) => ({ conditions: [{ type: "Ready", status }] }) as V1Pod["status"];
  const containerStatuses = [{ name: "postgres", restartCount: 2 }] as never;
  addPod("db-0", [], { status: { ...isReady("True"), containerStatuses } });
  addPod("cache-0", [], { serviceId: "svc_2", status: isReady("False") });
  const usage = { cpu: "250m", memory: "64Mi" };
  const metadata = { name: "db-0", labels: labels(DB, "addon") };
  api.store.put({ ...PodMetrics, ...own }, { metadata, containers: [{ name: "postgres", usage }] } as never);
  await addons.status({ serviceId: DB, type: "postgres", environmentId: "env_1" });
  expect(await addons.measure()).toMatchObject([
    { serviceId: DB, replicas: 1, cores: 0.25, memory: 64 * 1024 ** 2, counters: [{ restarts: 2 }] },
  ]);
});

test("volumes grow by themselves only where a Prometheus is named, which says how full they are", () => {
  expect(addons.choiceOf("redis").storageGrowsReason).toContain("names no Prometheus");
  expect(addons.listFilling).toBeUndefined();
  expect(measured.choiceOf("redis").storageGrowsReason).toBeUndefined();
  expect(measured.listFilling).toBeDefined();
});
