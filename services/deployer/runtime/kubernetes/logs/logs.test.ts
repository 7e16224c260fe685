import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { readConfig } from "../../../../kit/process/config.ts";
import { connectKube } from "../../../kube/client.ts";
import { Deployment, Namespace, Pod } from "../../../kube/kinds.ts";
import { label } from "../../../kube/names.ts";
import type { LogLine, LogQuery } from "../../port.ts";
import { selectorOf } from "../app-pods.ts";
import { lokiFields, lokiOptions } from "./config.ts";
import { appSource } from "./log-source.ts";
import { createLogs } from "./logs.ts";
import { createLoki } from "./loki.ts";
import { startLoki } from "./testing.ts";

const [ENVIRONMENT, NAMESPACE] = ["env_1", "berth-env-1"];
const [SERVICE, OTHER] = ["svc_1", "svc_2"];
const SPEC = { containers: [{ name: "app" }] };
/** An hour ago, so that it is within the days that are asked for. */
const BEGIN = BigInt(Math.floor(Date.now() / 1_000) - 3_600) * 1_000_000_000n;

let loki: Awaited<ReturnType<typeof startLoki>>;
let api: KubeApi;
let said: string[];

beforeAll(async () => {
  [loki, api] = await Promise.all([startLoki(), startKubeApi()]);
});
beforeEach(() => {
  loki.breakBy();
  loki.requests.length = 0;
  if (api.store.find(Namespace, NAMESPACE)) api.store.remove(Namespace, NAMESPACE);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
  const own = { ...Deployment, namespace: NAMESPACE };
  api.store.put(own, { metadata: { name: "web", labels: selectorOf(SERVICE) } });
  said = [];
});
afterAll(() => Promise.all([loki?.stop(), api?.stop()]));

let tenants = 0;

/** The logs of an installation with a tenant of its own, and what its collector and its nodes do. */
function installation(settings: Record<string, string> = {}) {
  const tenant = `tenant-${++tenants}`;
  const fields = readConfig({ LOKI_URL: loki.url, LOKI_TENANT: tenant, ...settings }, lokiFields);
  const note = (object: object, message: string) => void said.push(`${message} ${JSON.stringify(object)}`);
  const log = { info: note, warn: note, error: note };
  const kube = connectKube(api.config);
  const { page, follow } = createLogs({ kube, log, loki: lokiOptions(fields) }, (query) =>
    appSource("berth", query),
  );
  return {
    page: (query: Partial<LogQuery> & { limit?: number; cursor?: string } = {}) =>
      page({ serviceId: SERVICE, environmentId: ENVIRONMENT, limit: 100, ...query }),
    follow,
    /** Hands in a line that was written `at` nanoseconds after BEGIN. */
    collect(at: number, message: string, changes: Record<string, string> = {}) {
      const labels = {
        namespace: NAMESPACE,
        container: "app",
        pod: "web-7d9f8c6b5d-aaaaa",
        berth_dev_service: SERVICE,
        berth_dev_version: "1",
        stream: "stdout",
        ...changes,
      };
      loki.push(tenant, { labels, nanos: BEGIN + BigInt(at), message });
    },
  };
}

/** Adds a pod of version 2 with lines, each written `at` nanoseconds after BEGIN. */
function keepOnNode(name: string, lines: [at: number, message: string][]) {
  const labels = { ...selectorOf(SERVICE), [label("version")]: "2" };
  api.store.put({ ...Pod, namespace: NAMESPACE }, { metadata: { name, labels }, spec: SPEC });
  const second = new Date(Number(BEGIN / 1_000_000n)).toISOString().slice(0, 19);
  api.podLogs.set(
    name,
    lines.map(([at, message]) => `${second}.${String(at).padStart(9, "0")}Z ${message}`),
  );
}

const messages = (lines: LogLine[]) => lines.map(({ message }) => message);

test("lines of ended pods are there, paged from the newest through those of existing ones, each once", async () => {
  const { collect, page } = installation();
  // Several of one time, more than a page has, and on both sides of where a page ends.
  const old = Array.from({ length: 23 }, (_, n) => `old ${n}`);
  old.forEach((message, n) => {
    collect(n < 5 ? n : n < 17 ? 5 : n, message);
  });
  keepOnNode("web-5c4b3a2910-bbbbb", [
    [100, "both"],
    [200, "not collected yet"],
  ]);
  collect(100, "both", { pod: "web-5c4b3a2910-bbbbb", berth_dev_version: "2", stream: "stderr" });
  const all: LogLine[] = [];
  let cursor: string | undefined;
  do {
    const answer = await page({ limit: 4, cursor });
    expect(answer.lines.length).toBeLessThanOrEqual(4);
    all.push(...answer.lines);
    cursor = answer.nextCursor;
  } while (cursor !== undefined);
  expect(messages(all)).toEqual(["not collected yet", "both", ...old.toReversed()]);
  expect(all[1]).toMatchObject({ replica: "bbbbb", version: 2, stream: "stderr" });
  expect(all.at(-1)).toMatchObject({ replica: "aaaaa", version: 1, stream: "stdout" });
  expect(said).toEqual([]);
});

test("a line ends where the app ended it, whatever characters it holds", async () => {
  const { page } = installation();
  const [odd, progress] = ["a\u2028b\u2029c", "10 %\r20 %"];
  keepOnNode("web-odd", [
    [10, odd],
    [20, progress],
  ]);
  const { lines } = await page({ version: 2 });
  expect(messages(lines)).toEqual([progress, odd]);
});

test("lines are chosen by version, stream and time, as without Loki", async () => {
  const { collect, page } = installation();
  collect(1, "a complaint", { stream: "stderr" });
  collect(2, "hello");
  collect(2_000_000_000, "later", { berth_dev_version: "2" });
  collect(3_000_000_000, "without a stream", { stream: "" });
  const since = new Date(Number(BEGIN / 1_000_000n) + 2_000);
  const found = async (query: Partial<LogQuery>) => messages((await page(query)).lines);
  expect(await found({ stream: "stderr" })).toEqual(["a complaint"]);
  expect(await found({ stream: "stdout" })).toEqual(["without a stream", "later", "hello"]);
  expect(await found({ version: 2 })).toEqual(["later"]);
  expect(await found({ since })).toEqual(["without a stream", "later"]);
  keepOnNode("web-5c4b3a2910-bbbbb", [[1, "a complaint of unknown stream"]]);
  expect(await found({ stream: "stderr" })).toEqual(["a complaint"]);
});

test("nothing but the service's own lines is shown, whatever its ids look like", async () => {
  const { collect, page } = installation();
  collect(1, "ours");
  collect(2, "of a neighbour", { berth_dev_service: OTHER });
  collect(3, "of another environment", { namespace: "berth-env-2" });
  collect(4, "of another container", { container: "sidecar" });
  collect(5, "of nobody's version", { berth_dev_version: "" });
  installation().collect(6, "of another tenant");
  expect(messages((await page()).lines)).toEqual(["ours"]);
  expect(messages((await page({ serviceId: "svc_removed" })).lines)).toEqual([]);
  const hostile = createLoki(
    { ...lokiOptions(readConfig({ LOKI_URL: loki.url }, lokiFields))!, tenant: "t" },
    console,
  );
  const serviceId = `svc_1"} or {namespace=~".+", x="\\`;
  await hostile.newest(appSource("berth", { serviceId, environmentId: ENVIRONMENT }), {}, 10);
  expect(loki.requests.at(-1)!.query).toContain(`berth_dev_service=${JSON.stringify(serviceId)}, `);
});

test("a Loki that is away leaves the nodes' lines, and is not taken for the end of the log", async () => {
  const { collect, page, follow } = installation();
  collect(1, "old");
  keepOnNode("web-5c4b3a2910-bbbbb", [[100, "new"]]);
  for (const answer of ["too many outstanding requests", "[]", "x".repeat(17 * 1024 * 1024)]) {
    loki.breakBy((response) => response.writeHead(answer.startsWith("too") ? 429 : 200).end(answer));
    const { lines, nextCursor } = await page();
    expect(messages(lines)).toEqual(["new"]);
    const older = page({ cursor: nextCursor });
    await expect(older).rejects.toMatchObject({
      message: expect.stringContaining("Older lines are in Loki"),
    });
  }
  const stop = new AbortController();
  const query = { serviceId: SERVICE, environmentId: ENVIRONMENT, tail: 10 };
  for await (const line of follow(query, stop.signal)) {
    expect(line.message).toBe("new");
    stop.abort();
  }
  loki.breakBy();
  const { nextCursor, lines } = await page();
  expect([messages(lines), nextCursor]).toEqual([["new", "old"], undefined]);
  // Once each, however often it was asked.
  expect(said).toEqual([expect.stringContaining("status 429"), expect.stringContaining("answers again")]);
});

test("it logs in with a token, or a name and a password, which no message contains", async () => {
  const basic = `Basic ${Buffer.from("me:secret").toString("base64")}`;
  const logins = { LOKI_USERNAME: "me", LOKI_PASSWORD: "secret" };
  for (const [settings, sent] of [
    [logins, basic],
    [{ LOKI_TOKEN: "secret" }, "Bearer secret"],
    [{}, undefined],
  ] as const) {
    const { collect, page } = installation(settings);
    collect(1, "hello");
    expect(messages((await page()).lines)).toEqual(["hello"]);
    expect(loki.requests.at(-1)!.authorization).toBe(sent);
    loki.breakBy((response) => response.writeHead(302, { location: `${loki.url}/elsewhere` }).end());
    await expect(page()).rejects.toThrow("Older lines");
    loki.breakBy();
  }
  expect(loki.requests.length).toBe(6);
  expect(said.length).toBe(3);
  expect(said.join()).not.toMatch(/secret|Basic|Bearer/);
});

test("settings that cannot work are refused without being quoted", () => {
  for (const settings of [
    { LOKI_URL: "http://me:secret@loki" },
    { LOKI_URL: "ftp://secret" },
    { LOKI_LABELS: '{"pod":"secret name"}' },
    { LOKI_LABELS: '{"secret":"pod"}' },
    { LOKI_DAYS: "0" },
  ])
    expect(() => readConfig(settings, lokiFields)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("secret") }),
    );
  expect(lokiOptions(readConfig({}, lokiFields))).toBeUndefined();
});

test("more than a month is asked for in parts that Loki admits", async () => {
  const { collect, page } = installation({ LOKI_DAYS: "90" });
  collect(-80 * 86_400e9, "long ago");
  collect(-100 * 86_400e9, "too long ago");
  expect(messages((await page()).lines)).toEqual(["long ago"]);
  expect(said).toEqual([]);
});
