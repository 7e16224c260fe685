import { fetch } from "../../../../kit/network/fetch.ts";
import { nameOf, namespaceOf } from "../../../kube/names.ts";
import type { FillingVolume, Points } from "../../../terms/measurement.ts";
import { isDeployable } from "../../../terms/services.ts";
import type { SeriesQuery } from "../../port.ts";
import { objectName } from "../release/manifests.ts";
import { fillingQuery, toFilling } from "./filling-volumes.ts";

type Matrix = { metric: Record<string, string>; values: [number, string][] }[];

const TIMEOUT_MS = 5_000;
/** Of a query about all environments. Nobody waits for it. */
const FILLING_TIMEOUT_MS = 30_000;
const MAX_ANSWER = 4 * 1024 * 1024;
/** A rate needs two samples: most installations scrape every 15 to 60 s. */
const SCRAPED_S = 60;
const QUANTILES = { latency_p50: 0.5, latency_p95: 0.95, latency_p99: 0.99 };

/**
 * Reads the requests that ingress-nginx counted for a service, the traffic of its pods that cAdvisor counted, and what an
 * addon's volumes hold as the kubelets say, from the operator's Prometheus (docs/metrics.md#prometheus).
 */
export function createPrometheus({ url, namespacePrefix }: { url: string; namespacePrefix: string }) {
  async function post<T>(path: string, body: Record<string, string>, timeoutMs: number): Promise<T[]> {
    const target = `${url.replace(/\/$/, "")}/api/v1/${path}`;
    const signal = AbortSignal.timeout(timeoutMs);
    const form = new URLSearchParams(body);
    const response = await fetch(target, { method: "POST", body: form, signal, redirect: "error" });
    const text = await readAtMost(response, MAX_ANSWER);
    if (!response.ok) throw new Error(`Prometheus answered ${response.status}: ${text.slice(0, 200)}`);
    const { status, data } = JSON.parse(text) as { status?: string; data?: { result?: T[] } };
    if (status !== "success" || !Array.isArray(data?.result))
      throw new Error("Prometheus did not answer as its API says");
    return data.result;
  }

  /** Returns the steps of a query; what it says of the end of a step is a point at its beginning. */
  async function ask(query: string, { from, to, stepMs }: SeriesQuery): Promise<Matrix> {
    const end = Math.floor(to / stepMs) * stepMs;
    if (end <= from) return [];
    const [start, step] = [(from + stepMs) / 1_000, stepMs / 1_000].map(String) as [string, string];
    return post("query_range", { query, start, end: String(end / 1_000), step }, TIMEOUT_MS);
  }

  return {
    async readSeries(wanted: SeriesQuery): Promise<Record<string, Points>> {
      const { stepMs } = wanted;
      const queries = queriesOf(wanted, namespaceOf(namespacePrefix, wanted.environmentId));
      const names = Object.keys(queries);
      const found = await Promise.all(names.map((name) => ask(queries[name]!, wanted)));
      const series: Record<string, Points> = {};
      for (const [at, name] of names.entries()) {
        const matrix = found[at]!;
        if (name === "requests") Object.assign(series, requestsOf(matrix, stepMs));
        else series[name] = toPoints(matrix[0]?.values ?? [], stepMs, name in QUANTILES ? 1_000 : 1);
      }
      return series;
    },
    listFilling: async (share: number): Promise<FillingVolume[]> =>
      toFilling(await post("query", { query: fillingQuery(namespacePrefix, share) }, FILLING_TIMEOUT_MS)),
  };
}

/** Returns the query of each series; `requests` are those of all statuses, by status. */
export function queriesOf(wanted: SeriesQuery, namespace: string): Record<string, string> {
  const { type } = wanted;
  const step = wanted.stepMs / 1_000;
  const window = `[${step + SCRAPED_S}s]`;
  const traffic = (pods: string) => {
    const of = (metric: string) =>
      `sum(rate(${metric}{namespace="${namespace}",pod=~"${pods}"}${window})) * ${step}`;
    return {
      network_in: of("container_network_receive_bytes_total"),
      network_out: of("container_network_transmit_bytes_total"),
    };
  };
  if (!isDeployable(type)) {
    // Servers and their volumes are numbered. Of several servers the fullest counts.
    const server = nameOf(wanted.serviceId);
    const ofVolumes = (metric: string) =>
      `max(max_over_time(${metric}{namespace="${namespace}",persistentvolumeclaim=~"(data-)?${server}-[0-9]+"}${window}))`;
    return {
      ...traffic(`${server}-[0-9]+`),
      storage_used: ofVolumes("kubelet_volume_stats_used_bytes"),
      storage_size: ofVolumes("kubelet_volume_stats_capacity_bytes"),
    };
  }
  const name = objectName(wanted);
  const ofPods = traffic(`${name}-[a-z0-9]+-[a-z0-9]{5}`);
  if (type !== "web") return ofPods;
  // Prometheus renames the label of a metric that its own scraping has too.
  const ofIngress = (metric: string) =>
    ["namespace", "exported_namespace"]
      .map((own) => `rate(${metric}{${own}="${namespace}",ingress="${name}"}${window})`)
      .join(" or ");
  const buckets = `sum by (le) (${ofIngress("nginx_ingress_controller_request_duration_seconds_bucket")})`;
  const quantiles = Object.entries(QUANTILES).map(([series, share]) => [
    series,
    `histogram_quantile(${share}, ${buckets})`,
  ]);
  return {
    ...ofPods,
    requests: `sum by (status) (${ofIngress("nginx_ingress_controller_requests")}) * ${step}`,
    ...Object.fromEntries(quantiles),
  };
}

/** Returns the series of requests from those of each status code. */
function requestsOf(matrix: Matrix, stepMs: number): Record<string, Points> {
  const sums: Record<string, Map<number, number>> = {};
  for (const { metric, values } of matrix) {
    const [digit] = metric.status ?? "";
    const of = ["requests", ...(digit && "2345".includes(digit) ? [`status_${digit}xx`] : [])];
    for (const { at, value } of toPoints(values, stepMs))
      for (const name of of) {
        sums[name] ??= new Map();
        sums[name].set(at, (sums[name].get(at) ?? 0) + value);
      }
  }
  return Object.fromEntries(
    Object.entries(sums).map(([name, points]) => [
      name,
      [...points].map(([at, value]) => ({ at, value: Math.round(value) })).sort((a, b) => a.at - b.at),
    ]),
  );
}

function toPoints(values: [number, string][], stepMs: number, factor = 1): Points {
  return values
    .map(([seconds, value]) => ({ at: Math.round(seconds * 1_000) - stepMs, value: Number(value) * factor }))
    .filter(({ value }) => Number.isFinite(value));
}

async function readAtMost(response: Response, most: number): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > most) throw new Error("the answer of Prometheus is too large");
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
