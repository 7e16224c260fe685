import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Labels = Record<string, string>;
type Written = { labels: Labels; nanos: bigint; message: string };

/**
 * A Loki as its HTTP API is documented (`GET /loki/api/v1/query_range` for streams, newest lines first): times in
 * nanoseconds, `start` inclusive and `end` exclusive, 5 000 lines and 721 hours at most, lines by tenant.
 */
export async function startLoki() {
  const tenants = new Map<string, Written[]>();
  const requests: { query: string; authorization?: string }[] = [];
  let broken: ((response: ServerResponse) => void) | undefined;

  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://loki");
    const query = searchParams.get("query") ?? "";
    requests.push({ query, authorization: request.headers.authorization });
    const refuse = (status: number, why: string) => response.writeHead(status).end(why);
    if (broken) return broken(response);
    if (pathname !== "/loki/api/v1/query_range") return refuse(404, "404 page not found");
    const tenant = request.headers["x-scope-orgid"];
    if (typeof tenant !== "string") return refuse(401, "no org id");
    const [start, end] = ["start", "end"].map((name) => BigInt(searchParams.get(name) ?? "0"));
    const limit = Number(searchParams.get("limit") ?? 100);
    if (limit > 5_000) return refuse(400, "max entries limit per query exceeded");
    if (end! - start! > 721n * 3_600_000_000_000n)
      return refuse(400, "the query time range exceeds the limit (query length: …, limit: 30d1h)");
    const matches = parseSelector(query);
    if (!matches || searchParams.get("direction") !== "backward") return refuse(400, "parse error");
    const found = (tenants.get(tenant) ?? [])
      .filter((line) => line.nanos >= start! && line.nanos < end! && matches(line))
      .map((line, nth) => ({ ...line, nth }))
      .sort((one, other) => Number(other.nanos - one.nanos) || other.nth - one.nth)
      .slice(0, limit);
    const streams = Map.groupBy(found, ({ labels }) => JSON.stringify(labels));
    const result = [...streams.values()].map((lines) => ({
      stream: lines[0]!.labels,
      values: lines.map(({ nanos, message }) => [String(nanos), message]),
    }));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ status: "success", data: { resultType: "streams", result, stats: {} } }));
  });

  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    /** Adds a line of a tenant, as a collector does. */
    push(tenant: string, line: Written): void {
      tenants.set(tenant, [...(tenants.get(tenant) ?? []), line]);
    },
    /** Has `answer` answer each request until it is called without one. */
    breakBy(answer?: (response: ServerResponse) => void): void {
      broken = answer;
    },
    async stop(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Returns whether a line matches a LogQL selector, with one filter for what it contains; undefined for what is none. */
function parseSelector(query: string): ((line: Written) => boolean) | undefined {
  const matcher = /([a-zA-Z_][a-zA-Z0-9_]*)(=~|!=|=)("(?:[^"\\]|\\.)*")(?:, |$)/gy;
  const [, inner = "", part = '""'] = /^\{(.+)\}(?: \|= ("(?:[^"\\]|\\.)*"))?$/.exec(query) ?? [];
  const matchers = [...inner.matchAll(matcher)];
  if (matchers.map(([whole]) => whole).join("") !== inner || inner === "") return undefined;
  return ({ labels, message }) =>
    message.includes(JSON.parse(part)) &&
    matchers.every(([, label = "", is, quoted = '""']) => {
      const [has, value] = [labels[label] ?? "", JSON.parse(quoted) as string];
      if (is === "=~") return new RegExp(`^(?:${value})$`).test(has);
      return (has === value) === (is === "=");
    });
}
