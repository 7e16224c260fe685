import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createPrometheus } from "./prometheus.ts";

type Asked = { path: string; query: string; start: number; end: number; step: number };

const FROM = Date.parse("2026-11-20T09:00:00Z");
const wanted = {
  ...{ serviceId: "svc_1", environmentId: "env_1", names: { service: "web" }, type: "web" as const },
  ...{ from: FROM, to: FROM + 150_000, stepMs: 60_000 },
};
let asked: Asked[] = [];
let answer: (query: string, response: ServerResponse) => void;
/** A Prometheus as far as its HTTP API is used: queries, sent as a form. */
const server = createServer(async (request, response) => {
  const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
  const [start, end, step] = ["start", "end", "step"].map((name) => Number(form.get(name))) as [
    number,
    number,
    number,
  ];
  const query = form.get("query") ?? "";
  asked.push({ path: `${request.method} ${request.url}`, query, start, end, step });
  answer(query, response);
});
const succeed = (response: ServerResponse, result: unknown) =>
  response.end(JSON.stringify({ status: "success", data: { resultType: "matrix", result } }));
let readSeries: ReturnType<typeof createPrometheus>["readSeries"];
let listFilling: ReturnType<typeof createPrometheus>["listFilling"];
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/prometheus/`;
  ({ readSeries, listFilling } = createPrometheus({ url, namespacePrefix: "berth" }));
});
beforeEach(() => {
  asked = [];
  answer = (_, response) => succeed(response, []);
});
afterAll(() => server.close());

test("requests are summed by the class of their status, and each value is at the beginning of its step", async () => {
  const end = FROM / 1_000 + 60;
  answer = (query, response) => {
    if (!query.startsWith("sum by (status)")) return succeed(response, []);
    const of = (status: string, ...values: string[]) => ({
      metric: { status },
      values: values.map((value, at) => [end + at * 60, value]),
    });
    succeed(response, [of("200", "10.4", "3"), of("204", "2"), of("404", "1"), of("101", "1")]);
  };
  expect(await readSeries(wanted)).toMatchObject({
    requests: [
      { at: FROM, value: 14 },
      { at: FROM + 60_000, value: 3 },
    ],
    status_2xx: [
      { at: FROM, value: 12 },
      { at: FROM + 60_000, value: 3 },
    ],
    status_4xx: [{ at: FROM, value: 1 }],
  });
});

test("latencies are in milliseconds, and a quantile of no requests has no point", async () => {
  answer = (query, response) => {
    const value = query.startsWith("histogram_quantile(0.95,") ? "0.25" : "NaN";
    const isQuantile = query.startsWith("histogram_quantile");
    succeed(response, isQuantile ? [{ metric: {}, values: [[FROM / 1_000 + 60, value]] }] : []);
  };
  const found = await readSeries(wanted);
  expect(found.latency_p95).toEqual([{ at: FROM, value: 250 }]);
  expect(found.latency_p50).toEqual([]);
});

test("only whole steps are asked for, of the service's own objects; of a worker only the network", async () => {
  await readSeries({ ...wanted, names: { service: "shop" }, objectName: "web" });
  expect(asked).toHaveLength(6);
  for (const { path, query, start, end, step } of asked) {
    expect([path, start, end, step]).toEqual([
      "POST /prometheus/api/v1/query_range",
      ...[FROM / 1_000 + 60, FROM / 1_000 + 120, 60],
    ]);
    expect(query).toMatch(/namespace="berth-env-1"/);
    expect(query).toMatch(/ingress="web"|pod=~"web-\[a-z0-9\]\+-\[a-z0-9\]\{5\}"/);
  }
  asked = [];
  await readSeries({ ...wanted, type: "worker" });
  expect(asked).toHaveLength(2);
  asked = [];
  await readSeries({ ...wanted, to: FROM + 59_000 });
  expect(asked).toEqual([]);
});

test("of an addon the network of its servers and its volumes are asked for, and no other's", async () => {
  answer = (query, response) => {
    const values = [[FROM / 1_000 + 60, "1024"]];
    succeed(response, query.includes("used_bytes") ? [{ metric: {}, values }] : []);
  };
  const found = await readSeries({ ...wanted, serviceId: "svc_7x", type: "postgres" });
  expect(found).toMatchObject({ storage_used: [{ at: FROM, value: 1024 }], storage_size: [] });
  expect(Object.keys(found)).toEqual(["network_in", "network_out", "storage_used", "storage_size"]);
  for (const { query } of asked) {
    expect(query).toContain('namespace="berth-env-1"');
    expect(query).toMatch(/pod=~"svc-7x-\[0-9\]\+"|persistentvolumeclaim=~"\(data-\)\?svc-7x-\[0-9\]\+"/);
  }
});

test("of all environments the addons with nearly full volumes are asked for at once, the fullest volume of each", async () => {
  answer = (_, response) => {
    const of = (name: string, claim: string, bytes: string) => ({
      metric: {
        __name__: `kubelet_volume_stats_${name}_bytes`,
        namespace: "berth-env-1",
        persistentvolumeclaim: claim,
      },
      value: [FROM / 1_000, bytes],
    });
    succeed(response, [
      ...[of("used", "data-svc-7x-0", "86"), of("capacity", "data-svc-7x-0", "100")],
      ...[of("used", "svc-8y-1", "90"), of("used", "svc-8y-2", "99")],
      ...[of("capacity", "svc-8y-1", "100"), of("capacity", "svc-8y-2", "100")],
      ...[of("used", "svc-9z-0", "5"), of("used", "cache", "9"), of("capacity", "cache", "9")],
    ]);
  };
  expect(await listFilling(0.85)).toEqual([
    { serviceId: "svc_8y", usedBytes: 99, capacityBytes: 100 },
    { serviceId: "svc_7x", usedBytes: 86, capacityBytes: 100 },
  ]);
  expect(asked).toHaveLength(1);
  expect(asked[0]?.path).toBe("POST /prometheus/api/v1/query");
  expect(asked[0]?.query).toContain('namespace=~"berth-env-[0-9a-z]+"');
  expect(asked[0]?.query).toContain(">= 0.85");
});

test("what is no answer of a Prometheus is an error: a refusal, another body, one that is too large", async () => {
  const failsBy = (respond: (response: ServerResponse) => void) => {
    answer = (_, response) => respond(response);
    return expect(readSeries(wanted)).rejects;
  };
  await failsBy((response) => response.writeHead(422).end("parse error")).toThrow("422: parse error");
  await failsBy((response) => response.end('{"status":"error"}')).toThrow("did not answer as its API says");
  await failsBy((response) => response.end("<html>")).toThrow("JSON");
  await failsBy((response) => response.end("x".repeat(5 * 1024 * 1024))).toThrow("too large");
  await failsBy((response) => response.destroy()).toThrow();
});
