import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { freePort } from "../../services/kit/process/free-port.ts";
import { Berth, isRefusal, Refusal, Unreachable } from "./src/index.ts";

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const servers: { close(): void; closeAllConnections(): void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** Starts a server that answers each request by the next of these, and the last one for ever. */
async function serve(...answers: Answer[]) {
  const requests: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const answer = answers[Math.min(requests.length, answers.length - 1)]!;
    requests.push({ method: request.method!, url: request.url!, headers: request.headers, body });
    answer(request, response, body);
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { requests, baseUrl, berth: new Berth({ baseUrl, token: "pat_1" }) };
}

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    void response
      .writeHead(status, { "content-type": "application/json", ...headers })
      .end(JSON.stringify(body));
const refusal = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}) =>
  json(
    status,
    { error: { code, message: `It is ${code}.`, requestId: "req_1", details: [], ...more } },
    headers,
  );
const lose: Answer = (request) => void request.socket.destroy();
const gone: Answer = (_, response) => void response.writeHead(204).end();
const project = { id: "prj_1", name: "shop" };
const SOON = { "retry-after": "0" };

const A = { accountId: "acc_1" };
const P = { ...A, projectId: "prj_1" };
const S = { ...P, environmentId: "env_1", service: "web" };

const thrownBy = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

test("a write whose answer is lost is sent again with the same key, and a new call has another", async () => {
  const { berth, requests } = await serve(
    lose,
    refusal(409, "conflict"),
    json(201, project),
    json(201, project),
  );
  expect(await berth.projects.create(A, { name: "shop" })).toEqual(project);
  await berth.projects.create(A, { name: "shop" });
  const keys = requests.map(({ headers }) => headers["idempotency-key"]);
  expect(keys.slice(0, 3)).toEqual([keys[0], keys[0], keys[0]]);
  expect(keys[0]).toMatch(/^[!-~]{16,}$/);
  expect(keys[3]).not.toBe(keys[0]);
  expect(new Set(requests.map(({ body }) => body))).toEqual(new Set(['{"name":"shop"}']));
});

test.each([
  ["429", refusal(429, "rate_limited", {}, SOON)],
  ["503", refusal(503, "unavailable", {}, SOON)],
])("%s is tried again after what Retry-After says, three times unless told otherwise", async (_, again) => {
  const some = await serve(again, again, again, json(200, project));
  expect(await some.berth.projects.get(P)).toEqual(project);
  const many = await serve(again);
  expect(await thrownBy(many.berth.projects.get(P))).toBeInstanceOf(Refusal);
  expect(many.requests.length).toBe(4);
  const never = await serve(again);
  expect(await thrownBy(never.berth.projects.get(P, { retries: 0 }))).toBeInstanceOf(Refusal);
  expect(never.requests.length).toBe(1);
});

test("a conflict, a refusal and a failure of the server are not tried again", async () => {
  for (const answer of [
    refusal(409, "conflict"),
    refusal(422, "validation_failed"),
    refusal(500, "internal"),
  ]) {
    const { berth, requests } = await serve(answer);
    expect(await thrownBy(berth.projects.create(A, { name: "shop" }))).toBeInstanceOf(Refusal);
    expect(requests.length).toBe(1);
  }
});

test("a public POST, which takes no key, is not repeated when its answer is lost", async () => {
  const { berth, requests } = await serve(lose, json(201, {}));
  const error = await thrownBy(berth.sessions.signIn({ email: "ana@example.com", password: "secret" }));
  expect(error).toBeInstanceOf(Unreachable);
  expect(requests.map(({ headers }) => headers["idempotency-key"])).toEqual([undefined]);
});

test("a deletion whose answer was lost has happened when nothing is found at the second try", async () => {
  const { berth } = await serve(lose, refusal(404, "not_found"));
  await berth.projects.delete(P, { confirmImpact: true });
  const never = await serve(refusal(404, "not_found"));
  expect(await thrownBy(never.berth.projects.delete(P, { confirmImpact: true }))).toBeInstanceOf(Refusal);
});

test("a cancellation, whose answer counts, is not taken for done when nothing is found at the second try", async () => {
  const { berth } = await serve(lose, refusal(404, "not_found"));
  expect(await thrownBy(berth.subscription.cancel(A))).toMatchObject({ status: 404 });
});

test("a write that names an ETag is not repeated when its answer is lost: it would be refused for what it did", async () => {
  const { berth, requests } = await serve(lose, refusal(409, "revision_conflict"));
  const update = berth.variables.update(P, "NAME", { value: "x" }, { ifMatch: '"1"' });
  expect(await thrownBy(update)).toBeInstanceOf(Unreachable);
  expect(requests.length).toBe(1);
});

test("what a proxy answers that gets no answer from Berth is tried again", async () => {
  const bad: Answer = (_, response) =>
    void response.writeHead(502, { "content-type": "text/html" }).end("<p>Bad Gateway");
  const { berth, requests } = await serve(bad, json(200, project));
  expect(await berth.projects.get(P)).toEqual(project);
  expect(requests.length).toBe(2);
});

test("what the caller's own functions throw is thrown, and repeats nothing", async () => {
  const { berth, requests } = await serve(json(200, project));
  const onHead = () => {
    throw new Error("mine");
  };
  expect(await thrownBy(berth.projects.get(P, { onHead }))).toMatchObject({ message: "mine" });
  expect(requests.length).toBe(1);
  const hinting = await serve(stream(["retry: 1\n\n"]));
  const onReconnect = onHead;
  expect(await thrownBy(hinting.berth.logs.follow(S, {}, { onReconnect }).next())).toMatchObject({
    message: "mine",
  });
});

test("an upload that takes longer than its URL is valid ends", async () => {
  const target = { uploadUrl: "", archiveRef: "arc_1", contentType: "a/b", expiresInSeconds: 0.05 };
  const hanging = await serve(
    (...args) => json(200, { ...target, uploadUrl: `${hanging.baseUrl}/up` })(...args),
    () => {},
  );
  expect(await thrownBy(hanging.berth.deployments.upload(S, new Uint8Array(10)))).toMatchObject({
    name: "Unreachable",
    message: expect.stringContaining("longer than 0.05 s"),
  });
});

test("a refusal has its code, its details and what comes with the code", async () => {
  const impact = { services: [{ id: "svc_1" }], total: 1 };
  const details = [{ path: "name", reason: "too_long", message: "name is too long." }];
  const { berth } = await serve(refusal(409, "impact_confirmation_required", { impact, details }));
  const error = await thrownBy(berth.projects.delete(P));
  expect(error).toMatchObject({
    ...{ name: "Refusal", status: 409, message: "It is impact_confirmation_required.", requestId: "req_1" },
    ...{ impact, details },
  });
  expect(isRefusal(error, "impact_confirmation_required") && error.impact.total).toBe(1);
  expect(isRefusal(error, "not_found")).toBe(false);
});

test("a server that is no Berth, or none at all, is unreachable, and the error says why", async () => {
  const html: Answer = (_, response) =>
    void response.writeHead(404, { "content-type": "text/html" }).end("<p>404");
  expect(await thrownBy((await serve(html)).berth.me.get())).toMatchObject({
    name: "Unreachable",
    message: expect.stringContaining("404"),
  });
  const welcome: Answer = (_, response) =>
    void response.writeHead(200, { "content-type": "text/html" }).end("<p>");
  expect(await thrownBy((await serve(welcome)).berth.me.get())).toBeInstanceOf(Unreachable);
  const closed = new Berth({ baseUrl: `http://127.0.0.1:${await freePort()}`, retries: 0 });
  expect(await thrownBy(closed.me.get())).toMatchObject({ message: expect.stringContaining("ECONNREFUSED") });
});

test("a server that does not answer in time is unreachable; an abort is the caller's own", async () => {
  const hang: Answer = () => {};
  const { berth, requests } = await serve(hang);
  const late = await thrownBy(berth.me.get({ timeoutMs: 50, retries: 1 }));
  expect(late).toMatchObject({ name: "Unreachable", message: expect.stringContaining("within 0.05 s") });
  expect(requests.length).toBe(2);
  const controller = new AbortController();
  const call = thrownBy(berth.me.get({ signal: controller.signal }));
  controller.abort(new Error("enough"));
  expect(await call).toMatchObject({ message: "enough" });
});

test("a token may be made for each request, and what its maker throws is thrown", async () => {
  let made = 0;
  const { baseUrl, requests } = await serve(refusal(503, "unavailable", {}, SOON), json(200, {}));
  const berth = new Berth({ baseUrl, token: async () => `tok_${++made}` });
  await berth.me.get();
  expect(requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer tok_1", "Bearer tok_2"]);
  const failing = new Berth({
    baseUrl,
    token: () => {
      throw new Error("signed out");
    },
  });
  expect(await thrownBy(failing.me.get())).toMatchObject({ message: "signed out" });
});

test("a redirect is not followed: the token would go elsewhere", async () => {
  const away: Answer = (_, response) =>
    void response.writeHead(307, { location: "http://127.0.0.1:1/" }).end();
  const { berth, requests } = await serve(away);
  expect(await thrownBy(berth.me.get({ retries: 0 }))).toBeInstanceOf(Unreachable);
  expect(requests.length).toBe(1);
});

test("a list goes through all pages, and asks for none too many", async () => {
  const page = (names: string[], nextCursor: string) =>
    json(200, { data: names.map((name) => ({ name })), page: { nextCursor, hasMore: nextCursor !== "" } });
  const { berth, requests } = await serve(page(["a", "b"], "c 1"), page([], "c2"), page(["c"], ""));
  const names: string[] = [];
  for await (const { name } of berth.projects.list(A, { limit: 2 })) names.push(name);
  expect(names).toEqual(["a", "b", "c"]);
  const at = "/v1/accounts/acc_1/projects?limit=2";
  expect(requests.map(({ url }) => url)).toEqual([at, `${at}&cursor=c+1`, `${at}&cursor=c2`]);
  const few = await serve(page(["a", "b"], "c1"));
  expect((await few.berth.projects.list(A).all(2)).map(({ name }) => name)).toEqual(["a", "b"]);
  expect(few.requests.length).toBe(1);
});

/** Answers a stream: text, then its end, or a lost connection. */
const stream =
  (chunks: (string | Buffer)[], end: "end" | "lost" | "open" = "end"): Answer =>
  async (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of chunks) {
      response.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (end === "end") response.end();
    else if (end === "lost") response.destroy();
  };
const line = (message: string) => `{"message":${JSON.stringify(message)}}`;

const event = (name: string, data: object, id = "") =>
  `${id && `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const begin = (mode: string) => event("begin", { mode });
const set = (name: string, value: string) => event("set", { name, variable: { name, value } });
const commit = (revision: string) => event("commit", { revision }, revision);

/** Takes the first sets of a stream, as values by name. */
async function setsOf(berth: Berth, count: number, onReconnect: () => void = () => {}) {
  const sets: { values: object; changed: string[]; revision: string }[] = [];
  for await (const { data, changed, revision } of berth.variables.followResolved(S, { onReconnect })) {
    const values = Object.fromEntries(data.map(({ name, value }) => [name, value]));
    if (sets.push({ values, changed, revision }) === count) break;
  }
  return sets;
}

test("a followed set changes at a commit only: a frame that was cut off is forgotten, and another one follows it", async () => {
  const { berth, requests } = await serve(
    stream(
      [
        begin("full"),
        set("A", "1"),
        set("B", "1"),
        commit("r1"),
        begin("changes"),
        set("A", "lost"),
        event("unset", { name: "B" }),
      ],
      "lost",
    ),
    stream(
      [begin("none"), commit("r1"), commit("r1"), begin("changes"), set("A", "2"), commit("r2")],
      "lost",
    ),
    stream([begin("full"), set("C", "3"), commit("r9")]),
  );
  expect(await setsOf(berth, 3)).toEqual([
    { values: { A: "1", B: "1" }, changed: ["A", "B"], revision: "r1" },
    { values: { A: "2", B: "1" }, changed: ["A"], revision: "r2" },
    { values: { C: "3" }, changed: ["A", "B", "C"], revision: "r9" },
  ]);
  expect(requests.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "r1", "r2"]);
});

test("an environment is followed as its services, and one without any is told once", async () => {
  const { berth } = await serve(
    stream([
      begin("full"),
      commit("r1"),
      commit("r1"),
      begin("changes"),
      event("set", { id: "svc_1", name: "web" }),
      commit("r2"),
    ]),
  );
  const seen = [];
  for await (const { services, changed } of berth.environments.follow(S))
    seen.push([services.map(({ name }) => name), changed]);
  expect(seen).toEqual([
    [[], []],
    [["web"], ["svc_1"]],
  ]);
});

test("a server that answers a stream with JSON, as an earlier one does, does not offer it: it is asked once", async () => {
  const { berth } = await serve(json(200, { data: [], dangling: [] }));
  const { berth: never, requests } = await serve(json(200, {}));
  expect(await thrownBy(never.variables.followResolved(S).next())).toMatchObject({
    message: expect.stringContaining("does not offer this stream"),
  });
  expect(requests.length).toBe(1);
  expect(await berth.variables.resolve(S)).toEqual({ data: [], dangling: [] });
});

test("a stream is read whatever its pieces, and goes on after the last event when the connection is lost", async () => {
  const text = Buffer.from(
    `: heartbeat\n\nid: 1\nevent: line\ndata: ${line("ünö")}\n\nid: 2\r\nevent: line\r\ndata: ${line("two")}\r\n\r\nid: 3\n\n`,
  );
  const pieces = [...text].map((byte) => Buffer.from([byte]));
  const { berth, requests } = await serve(
    stream(pieces, "lost"),
    refusal(503, "unavailable", {}, SOON),
    stream([`id: 4\nevent: line\ndata: ${line("four")}\n\nretry: 1\n\n`]),
    stream([`event: line\ndata: ${line("five")}\n\n`]),
  );
  const seen: unknown[] = [];
  const lost: unknown[] = [];
  let opened = 0;
  const options = { onReconnect: (error: unknown) => void lost.push(error), onOpen: () => void opened++ };
  for await (const event of berth.logs.follow(S, {}, options)) seen.push(event);
  expect(seen).toEqual([
    { event: "line", data: { message: "ünö" }, id: "1" },
    { event: "line", data: { message: "two" }, id: "2" },
    { event: "line", data: { message: "four" }, id: "4" },
    { event: "line", data: { message: "five" } },
  ]);
  expect(requests.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "3", "3", "4"]);
  expect(lost.length).toBe(3);
  expect(opened).toBe(3);
});

test("a stream whose caller loses access ends with the refusal", async () => {
  const problem = { error: { code: "forbidden", message: "No longer.", requestId: "r", details: [] } };
  const { berth, requests } = await serve(stream([`event: problem\ndata: ${JSON.stringify(problem)}\n\n`]));
  expect(await thrownBy(berth.logs.follow(S).next())).toMatchObject({
    code: "forbidden",
    message: "No longer.",
  });
  expect(requests.length).toBe(1);
});

test("a stream that is left, or aborted, closes its connection", async () => {
  const closed: Promise<unknown>[] = [];
  const endless: Answer = (request, response) => {
    closed.push(once(request.socket, "close"));
    void stream([`event: line\ndata: ${line("one")}\n\n`], "open")(request, response, "");
  };
  const { berth } = await serve(endless);
  for await (const _ of berth.logs.follow(S)) break;
  const controller = new AbortController();
  const following = berth.logs.follow(S, {}, { signal: controller.signal });
  await following.next();
  const next = thrownBy(following.next());
  controller.abort(new Error("enough"));
  expect(await next).toMatchObject({ message: "enough" });
  expect(closed.length).toBe(2);
  await Promise.all(closed);
});

test("waiting for a deployment ends with its outcome, also when its stream ended before", async () => {
  const deployment = (more: object) => ({ version: 3, status: "applied", ...more });
  const event = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  const failed = deployment({ status: "failed" });
  const told = await serve(stream([event("state", failed), event("end", { outcome: "failed" })]));
  const stages: string[] = [];
  const onProgress = ({ status }: { status: string }) => void stages.push(status);
  expect(await told.berth.deployments.wait(S, 3, { onProgress })).toEqual({
    outcome: "failed",
    deployment: failed,
  });
  expect(stages).toEqual(["failed"]);
  const healthy = deployment({ healthyAt: "2026-11-20T10:00:00Z" });
  const over = await serve(stream([]), json(200, healthy));
  expect(await over.berth.deployments.wait(S, 3)).toEqual({ outcome: "healthy", deployment: healthy });
});

test("an upload sends the whole archive with its length, and says how far it is", async () => {
  const bytes = new Uint8Array(600_000).fill(7);
  const { berth, requests, baseUrl } = await serve(
    (...args) =>
      json(200, {
        uploadUrl: `${baseUrl}/up`,
        archiveRef: "arc_1",
        contentType: "application/gzip",
        expiresInSeconds: 900,
      })(...args),
    gone,
  );
  const sent: number[] = [];
  const archiveRef = await berth.deployments.upload(S, bytes, { onProgress: (count) => sent.push(count) });
  expect(archiveRef).toBe("arc_1");
  const [asked, put] = requests as [(typeof requests)[0], (typeof requests)[0]];
  expect(asked.body).toBe('{"sizeBytes":600000}');
  expect([put.method, put.headers["content-type"], put.headers["content-length"]]).toEqual([
    ...["PUT", "application/gzip", "600000"],
  ]);
  expect(put.headers.authorization).toBeUndefined();
  expect(put.body.length).toBe(600_000);
  expect(sent.at(-1)).toBe(600_000);
  const refused = await serve(
    (...args) =>
      json(200, {
        uploadUrl: `${refused.baseUrl}/up`,
        archiveRef: "arc_1",
        contentType: "a/b",
        expiresInSeconds: 900,
      })(...args),
    (_, response) => void response.writeHead(403).end(),
  );
  expect(await thrownBy(refused.berth.deployments.upload(S, bytes))).toMatchObject({
    message: expect.stringContaining("403"),
  });
});
