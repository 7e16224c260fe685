import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ServiceSchema } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { conflict, notFound } from "../../services/kit/rpc/errors.ts";
import { who } from "../../services/kit/rpc/interceptor.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { anyName, caller, refusalOf, type Surroundings, sendLarge, surroundings } from "../testing.ts";

let around: Surroundings;
let gateway: Awaited<ReturnType<Surroundings["gateway"]>>;
let call: ReturnType<typeof caller>;
let A: string;
const logLines: string[] = [];
/** What the services behind were asked. */
const asked: {
  method: string;
  request: Record<string, unknown>;
  caller: Record<string, unknown>;
  id: string;
}[] = [];

const ETAG = '"r7"';

beforeAll(async () => {
  around = await surroundings({
    variables: {
      listVariables: (request, ctx) => {
        note("listVariables", request, ctx);
        return { data: [{ name: "A" }], page: { nextCursor: "", hasMore: false } };
      },
      createVariable: (request, ctx) => {
        note("createVariable", request, ctx);
        const { name, value, sensitive = false } = request;
        return { id: "var_1", name, value, sensitive };
      },
      batchVariables: (request, ctx) => {
        note("batchVariables", request, ctx);
        return { applied: request.set.length };
      },
      deleteVariable: (request, ctx) => {
        note("deleteVariable", request, ctx);
        if (!request.confirmImpact)
          throw conflict("impact_confirmation_required", "Services lose it.", {
            impact: { total: 2, services: [] },
          });
        return {};
      },
      getResolvedVariables: (_request, ctx) => {
        ctx.responseHeader.set("etag", ETAG);
        if (ctx.requestHeader.get("if-none-match") === ETAG)
          ctx.responseHeader.set("berth-not-modified", "1");
        return {};
      },
      revealVariable: () => {
        throw new Error("a secret sentence");
      },
    },
    catalog: {
      getService: (request, ctx) => {
        note("getService", request, ctx);
        if (request.service !== "web") throw notFound("service");
        return create(ServiceSchema, { name: "web" });
      },
      createService: (request) => create(ServiceSchema, { name: request.name }),
    },
    deployments: {
      deployFromArchive: (request) =>
        request.archiveRef === "staged"
          ? {
              result: { case: "acknowledgement", value: { staged: true, reason: "service_not_provisioned" } },
            }
          : { result: { case: "deployment", value: { id: "dep_1", status: "queued" } } },
      rollback: ({ dryRun }) =>
        dryRun
          ? { result: { case: "dryRun", value: { eligible: true, diff: {} } } }
          : { result: { case: "deployment", value: { id: "dep_2", status: "queued" } } },
      getBuildLogs: (request) => ({ version: request.version, logs: "…ä\n" }),
      listLogs: (request, ctx) => {
        note("listLogs", request, ctx);
        return {};
      },
    },
  });
  gateway = await around.gateway({}, logLines);
  call = gateway.call;
  const me = await call("GET", "/accounts");
  A = `/accounts/${(me.body.data as { id: string }[])[0]!.id}`;
});

afterAll(() => around.stop());

function note(method: string, request: object, ctx: Parameters<typeof who>[0]): void {
  const { caller, requestId } = who(ctx);
  asked.push({ method, request: request as Record<string, unknown>, caller, id: requestId });
}

const P = () => `${A}/projects/prj_1`;
const S = () => `${P()}/environments/env_1/services/web`;

describe("what is wrong with a request is said before anything runs", () => {
  test("unknown, misspelt and path members of a body, each by its place", async () => {
    const body = {
      name: "A",
      alias_target: "B",
      project_id: "prj_2",
      projectId: "prj_2",
      environmentId: "env_1",
    };
    const answer = await call("POST", `${P()}/variables`, body);
    expect(refusalOf(answer)).toBe("422 unknown_field unknown_field unknown_field unknown_field");
    expect(answer.body.error.details.map((detail) => detail.path)).toEqual([
      "alias_target",
      "project_id",
      "projectId",
      "environmentId",
    ]);
  });

  test("unknown members and wrong types inside members are named by their whole path, never quoted", async () => {
    const set = [{ name: "A", value: "x" }, { name: 7777, connection: { service: "db", port: 1 } }, "s3cr3t"];
    const answer = await call("POST", `${P()}/variables/batch`, {
      set,
      unset: "s3cr3t",
      confirmImpact: "yes",
    });
    expect(answer.body.error.details.map(({ path, reason }) => `${path} ${reason}`)).toEqual([
      "set[1].name invalid_type",
      "set[1].connection.port unknown_field",
      "set[2] invalid_type",
      "unset invalid_type",
      "confirmImpact invalid_type",
    ]);
    expect(answer.text).not.toContain("s3cr3t");
    expect(answer.text).not.toContain("7777");
  });

  test("an unknown member is told the ones that there are, and the nearest", async () => {
    const said = async (method: string, path: string, body?: unknown) =>
      (await call(method, path, body)).body.error.details[0]!.message;
    const members = "There are: name, value, connection, aliasTarget, sensitive.";
    expect(await said("POST", `${P()}/variables`, { alias_target: "B" })).toBe(
      `alias_target is not known here; did you mean aliasTarget? ${members}`,
    );
    expect(await said("POST", `${P()}/variables`, { colour: "red" })).toBe(
      `colour is not known here. ${members}`,
    );
    expect(await said("POST", `${P()}/variables`, { connection: { servise: "db" } })).toBe(
      "connection.servise is not known here; did you mean service? There are: service, key.",
    );
    expect(await said("GET", `${P()}/variables?limt=3`)).toBe(
      "limt is not known here; did you mean limit? There are: limit, cursor.",
    );
    expect(await said("GET", `${S()}?x=1`)).toBe("x is not known here. There are none.");
    expect(await said("POST", `${P()}/variables`, { ["n".repeat(500_000)]: 1 })).toHaveLength(
      `${"n".repeat(200)} is not known here. ${members}`.length,
    );
    expect(await said("POST", `${P()}/variables`, "[]")).toBe("The body must be an object.");
  });

  test("query members that are unknown, of the wrong type, or given twice", async () => {
    const refused = async (query: string) => refusalOf(await call("GET", `${P()}/variables?${query}`));
    expect(await refused("limt=3")).toBe("422 unknown_field");
    expect(await refused("environmentId=env_1")).toBe("422 unknown_field");
    expect(await refused("limit=abc")).toBe("422 invalid_type");
    expect(await refused("limit=")).toBe("422 invalid_type");
    expect(await refused("limit=99999999999")).toBe("422 out_of_range");
    expect(await refused("limit=101")).toBe("422 out_of_range");
    expect(await refused("limit=1&limit=2")).toBe("422 invalid_type");
    expect(refusalOf(await call("GET", `${S()}/logs?since=yesterday`))).toBe("422 invalid_type");
    expect(refusalOf(await call("POST", `${P()}/variables?sensitive=true`, { name: "A", value: "" }))).toBe(
      "422 unknown_field",
    );
  });

  test.each([
    ["2026-02-30T00:00:00Z", "day must be from 01 to 28"],
    ["2100-02-29T00:00:00Z", "day must be from 01 to 28"],
    ["2028-02-30T00:00:00Z", "day must be from 01 to 29"],
    ["2026-04-31T00:00:00Z", "day must be from 01 to 30"],
    ["2026-11-00T00:00:00Z", "day must be from 01 to 30"],
    ["2026-00-10T00:00:00Z", "month must be from 01 to 12"],
    ["2026-13-10T00:00:00Z", "month must be from 01 to 12"],
    ["2026-11-20T24:00:00Z", "hour must be from 00 to 23"],
    ["2026-11-20T23:60:00Z", "minute must be from 00 to 59"],
    ["2026-06-30T23:59:60Z", "second must be from 00 to 59"],
    ["2026-11-20T10:00:00+24:00", "offset's hour must be from 00 to 23"],
    ["2026-11-20T10:00:00-99:99", "offset's hour must be from 00 to 23"],
    ["2026-11-20T10:00:00+01:60", "offset's minute must be from 00 to 59"],
    ["0000-11-20T10:00:00Z", "year must be from 0001 to 9999"],
    ["0001-01-01T00:00:00+00:01", "must be in the years 0001 to 9999"],
    ["9999-12-31T23:59:59-00:01", "must be in the years 0001 to 9999"],
  ])("the time %s does not exist: its %s", async (time, sentence) => {
    for (const path of [`${S()}/logs`, `${A}/audit-events`]) {
      const answer = await call("GET", `${path}?since=${encodeURIComponent(time)}`);
      expect(refusalOf(answer)).toBe("422 out_of_range");
      expect(answer.body.error.message).toContain(sentence);
      expect(answer.body.error.details[0]!.path).toBe("since");
    }
  });

  test("times that exist are taken, also at the ends of what there is, and others are none", async () => {
    const status = async (time: string) => {
      const answers = [`${S()}/logs`, `${A}/audit-events`].map((path) =>
        call("GET", `${path}?since=${encodeURIComponent(time)}`),
      );
      return [...new Set((await Promise.all(answers)).map(refusalOf))];
    };
    for (const time of [
      "2028-02-29T23:59:59.999999999+23:59",
      "2000-02-29T00:00:00-00:00",
      "0001-01-01T00:00:00Z",
      "9999-12-31T23:59:59.999999999Z",
    ])
      expect([time, await status(time)]).toEqual([time, ["200 "]]);
    for (const time of [
      "10000-01-01T00:00:00Z",
      "2026-11-20",
      "1795168800",
      "2026-11-20T10:00:00",
      "tomorrow",
      "",
    ])
      expect([time, await status(time)]).toEqual([time, ["422 invalid_type"]]);
  });

  test("a body that is not JSON, not an object, not UTF-8, compressed, of another type, or too large", async () => {
    const post = async (body: string | Uint8Array, headers = {}) => {
      const answer = await fetch(`${gateway.baseUrl}${P()}/variables`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${around.ownerToken}`,
          "content-type": "application/json",
          ...headers,
        },
        body: body as string,
      });
      return `${answer.status} ${((await answer.json()) as { error: { code: string } }).error.code}`;
    };
    expect(await post("{")).toBe("400 malformed_request");
    expect(await post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBe(
      "400 malformed_request",
    );
    expect(await post("[]")).toBe("422 validation_failed");
    expect(await post("null")).toBe("422 validation_failed");
    expect(await post("{}", { "content-type": "text/plain" })).toBe("415 unsupported_media_type");
    expect(await post("{}", { "content-encoding": "gzip" })).toBe("415 unsupported_media_type");
    expect(await post(`{"value":"${"x".repeat(1024 * 1024)}"}`)).toBe("413 payload_too_large");
  });

  test("a client that is refused while it sends a large body reads why", async () => {
    const send = async (headers: Record<string, string>) => {
      const options = { method: "POST", headers: { "content-type": "application/json", ...headers } };
      const request = httpRequest(`${gateway.baseUrl}${P()}/variables`, options);
      return (await sendLarge(request, 300)).statusCode;
    };
    expect(await send({ authorization: `Bearer ${around.ownerToken}` })).toBe(413);
    expect(await send({})).toBe(401);
  });

  test("a batch may be 4 MiB", async () => {
    const set = [{ name: "A", value: "x".repeat(3 * 1024 * 1024) }];
    expect((await call("POST", `${P()}/variables/batch`, { set })).status).toBe(200);
  });

  test("a caller who is not known or not allowed learns nothing of the body", async () => {
    const nobody = await call("POST", `${P()}/variables`, "{", { token: "" });
    expect(refusalOf(nobody)).toBe("401 unauthenticated");
    const stranger = await call("POST", "/accounts/acc_other/projects", '{"nope":1}');
    expect(refusalOf(stranger)).toBe("403 forbidden");
  });
});

test("whether the path names something is asked only when the request is refused", async () => {
  const asks = async (path: string) => {
    const before = asked.length;
    const answer = refusalOf(await call("GET", path));
    return [answer, ...asked.slice(before).map(({ method }) => method)];
  };
  const nobody = `${P()}/environments/env_1/services/nobody`;
  expect(await asks(`${S()}/logs?limit=7`)).toEqual(["200 ", "listLogs"]);
  expect(await asks(`${S()}/logs?limit=x`)).toEqual(["422 invalid_type", "getService"]);
  expect(await asks(`${nobody}/logs?limit=x`)).toEqual(["404 not_found", "getService"]);
});

describe("what arrives at a service", () => {
  test("path, query and body become one message, with the caller, role and request id", async () => {
    const headers = { "x-request-id": "abc-1" };
    const name = "A%2FB c/é";
    const path = `${P()}/environments/${encodeURIComponent(name)}/variables`;
    const answer = await call("POST", path, ' { "name" : "KEY", "value": "ü \\u00e9" } ', { headers });
    expect(answer.body).toMatchObject({ name: "KEY", value: "ü é", sensitive: false });
    const { request, caller, id } = asked.findLast((one) => one.method === "createVariable")!;
    expect(request).toMatchObject({ projectId: "prj_1", environmentId: name, name: "KEY", value: "ü é" });
    expect(caller).toMatchObject({
      kind: "user",
      role: "owner",
      accountId: A.split("/")[2],
      ip: "127.0.0.1",
    });
    expect(caller.tokenId).toMatch(/^tok_/);
    expect([id, answer.headers.get("x-request-id")]).toEqual(["abc-1", "abc-1"]);
  });

  test("query texts become numbers and times", async () => {
    const answer = await call("GET", `${S()}/logs?limit=7&since=2026-11-20T10:00:00Z&stream=stdout`);
    expect(answer.status).toBe(200);
    const { request } = asked.findLast((one) => one.method === "listLogs")!;
    expect(request).toMatchObject({ limit: 7, stream: "stdout", since: { seconds: 1795168800n } });
  });

  test("confirmImpact counts in the body and in the query, on DELETE and on a batch", async () => {
    const path = `${P()}/variables/A`;
    const refused = await call("DELETE", path);
    expect(refusalOf(refused)).toBe("409 impact_confirmation_required");
    expect(refused.body.error.impact).toEqual({ total: 2, services: [] });
    expect((await call("DELETE", path, { confirmImpact: true })).status).toBe(204);
    const done = await call("DELETE", `${path}?confirmImpact=true`);
    expect([done.status, done.text, done.headers.get("content-length")]).toEqual([204, "", null]);
    await call("POST", `${P()}/variables/batch?confirmImpact=true`, { unset: ["A"] });
    expect(asked.at(-1)).toMatchObject({
      method: "batchVariables",
      request: { confirmImpact: true, unset: ["A"] },
    });
  });

  test("a client's address is taken from X-Forwarded-For only from a trusted proxy", async () => {
    const addressSeen = async (base: string) => {
      await caller(base, around.ownerToken)("GET", `${P()}/variables`, undefined, {
        headers: { "x-forwarded-for": "203.0.113.9" },
      });
      return asked.at(-1)!.caller.ip;
    };
    expect(await addressSeen(gateway.baseUrl)).toBe("127.0.0.1");
    const trusting = await around.gateway({ TRUST_PROXY: "loopback" });
    expect(await addressSeen(trusting.baseUrl)).toBe("203.0.113.9");
  });
});

describe("what comes back", () => {
  test("the single member that is set, where one of several objects is documented", async () => {
    const deployed = await call("POST", `${S()}/deploy-from-archive`, { archiveRef: "arc_1" });
    expect(deployed.status).toBe(202);
    expect(deployed.body).toMatchObject({ id: "dep_1", errors: [] });
    const staged = await call("POST", `${S()}/deploy-from-archive`, { archiveRef: "staged" });
    expect(staged.body).toEqual({ staged: true, reason: "service_not_provisioned" });
  });

  test("the status that a member of the answer has of its own", async () => {
    const tried = await call("POST", `${S()}/rollback`, { version: 1, dryRun: true });
    expect([tried.status, tried.body.eligible]).toEqual([200, true]);
    const done = await call("POST", `${S()}/rollback`, { version: 1 });
    expect([done.status, done.body.id]).toEqual([202, "dep_2"]);
  });

  test("an ETag, and 304 without a body when it still holds", async () => {
    const first = await call("GET", `${S()}/resolved-variables`);
    expect([first.status, first.headers.get("etag")]).toEqual([200, ETAG]);
    expect(first.body).toEqual({ data: [], dangling: [] });
    const again = await call("GET", `${S()}/resolved-variables`, undefined, {
      headers: { "if-none-match": ETAG },
    });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", ETAG]);
  });

  test("an unforeseen error says nothing but the request id", async () => {
    const answer = await call("POST", `${P()}/variables/A/reveal`);
    expect(refusalOf(answer)).toBe("500 internal");
    expect(answer.body.error.requestId).toBe(answer.headers.get("x-request-id"));
    expect(answer.text).not.toContain("secret sentence");
  });

  test("HEAD answers like GET without the body", async () => {
    const answer = await call("HEAD", `${S()}/resolved-variables`);
    expect([answer.status, answer.headers.get("etag"), answer.text]).toEqual([200, ETAG, ""]);
  });

  test("a version that is no number is one that does not exist", async () => {
    for (const version of ["abc", "1.5", "99999999999", ""])
      expect(refusalOf(await call("GET", `${S()}/deployments/${version}/build-logs`))).toBe("404 not_found");
    expect((await call("GET", `${S()}/deployments/3/build-logs`)).body).toMatchObject({
      version: 3,
      logs: "…ä\n",
    });
  });
});

describe("every answer is in the envelope with a request id", () => {
  test("unknown paths, wrong methods with Allow, paths that can not be decoded", async () => {
    expect(refusalOf(await call("GET", "/nowhere"))).toBe("404 not_found");
    expect(refusalOf(await call("GET", `/me/${"x".repeat(600)}`))).toBe("404 not_found");
    expect(refusalOf(await call("GET", `${A}/projects/%zz`))).toBe("400 malformed_request");
    const wrong = await call("PUT", `${P()}/variables/A`, {});
    expect(refusalOf(wrong)).toBe("405 method_not_allowed");
    expect(wrong.headers.get("allow")).toBe("DELETE, GET, HEAD, PATCH");
    const odd = await new Promise<number>((resolve) => {
      const options = { method: "PROPFIND", headers: { connection: "close" } };
      httpRequest(`${gateway.baseUrl}/me`, options, (res) => resolve(res.resume().statusCode!)).end();
    });
    expect(odd).toBe(405);
  });

  test("a request id that is not plain is replaced", async () => {
    const answer = await call("GET", "/me", undefined, { headers: { "x-request-id": "a b{}" } });
    expect(answer.headers.get("x-request-id")).toMatch(/^req_[0-9a-z]{23}$/);
  });

  test("what is not HTTP, and headers that are too large", async () => {
    const { port } = new URL(gateway.origin);
    const raw = (text: string) =>
      new Promise<string>((resolve) => {
        let got = "";
        const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
        socket.on("data", (chunk) => {
          got += chunk;
        });
        socket.on("close", () => resolve(got));
      });
    expect(await raw("hello\r\n\r\n")).toMatch(
      /^HTTP\/1\.1 400 [\s\S]*x-request-id: req_[\s\S]*"malformed_request"/,
    );
    expect(await raw(`GET / HTTP/1.1\r\nhost: x\r\ncookie: ${"x".repeat(20_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 [\s\S]*"malformed_request"/,
    );
  });

  test("health, readiness and metrics by route and status", async () => {
    for (const path of ["/healthz", "/readyz"]) expect((await fetch(gateway.origin + path)).status).toBe(200);
    const metrics = await (await fetch(`${gateway.origin}/metrics`)).text();
    const counted = metrics.split("\n").filter((line) => /_count\{.*status="200"/.test(line));
    const routes = counted.map((line) => /route="([^"]+)"/.exec(line)?.[1]);
    expect(routes).toContain("/accounts/{account_id}/projects/{project_id}/variables");
  });

  test("metrics on a port of their own are not at the public one", async () => {
    const guarded = await around.gateway({ METRICS_PORT: "0" });
    expect((await fetch(`${guarded.origin}/metrics`)).status).toBe(404);
    const answer = await fetch(`http://127.0.0.1:${guarded.metricsPort}/metrics`);
    expect(await answer.text()).toContain("process_cpu_user_seconds_total");
    expect((await fetch(`http://127.0.0.1:${guarded.metricsPort}/healthz`)).status).toBe(404);
  });
});

describe("when something is away", () => {
  test("a service that can not be reached is 503 with Retry-After", async () => {
    const lonely = await around.gateway({ VARIABLES_URL: "http://127.0.0.1:1" });
    const answer = await lonely.call("GET", `${P()}/variables`);
    expect(refusalOf(answer)).toBe("503 unavailable");
    expect(answer.headers.get("retry-after")).toBe("1");
  });

  test("identity away is 503 for a token that is not remembered", async () => {
    const lonely = await around.gateway({ IDENTITY_URL: "http://127.0.0.1:1" });
    expect(refusalOf(await lonely.call("GET", `${P()}/variables`))).toBe("503 unavailable");
    expect(refusalOf(await lonely.call("GET", "/me", undefined, { token: "" }))).toBe("401 unauthenticated");
  });
});

describe("stopping", () => {
  test("a request under way is answered before the gateway is gone", async () => {
    let enter = () => {};
    const entered = new Promise<void>((resolve) => {
      enter = resolve;
    });
    let leave = () => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const slow = await surroundings({
      variables: {
        listVariables: async () => {
          enter();
          await left;
          return {};
        },
      },
    });
    const stopping = await slow.gateway();
    const accounts = await stopping.call("GET", "/accounts");
    const id = (accounts.body.data as { id: string }[])[0]!.id;
    const answer = stopping.call("GET", `/accounts/${id}/projects/prj_1/variables`);
    await entered;
    const stopped = stopping.stop();
    const { port } = new URL(stopping.origin);
    await eventually("the gateway takes no new connections", async () => {
      return new Promise<boolean>((resolve) => {
        const socket = connect(Number(port), "127.0.0.1", () => resolve(!socket.destroy()));
        socket.on("error", () => resolve(true));
      });
    });
    leave();
    expect((await answer).status).toBe(200);
    await stopped;
    await slow.stop();
  });
});

test("logs name no token and no value", async () => {
  await call("POST", `${P()}/variables`, { name: anyName("N"), value: "marker-value-in-a-body" });
  await call("GET", `/nowhere?token=${around.ownerToken}`);
  expect(logLines.length).toBeGreaterThan(10);
  expect(logLines.join("")).not.toContain(around.ownerToken);
  expect(logLines.join("")).not.toContain("marker-value-in-a-body");
});
