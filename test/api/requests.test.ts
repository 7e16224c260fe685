import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { allRoutes, type Route } from "../../gateway/routing/routes.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

const handle = () => `h${randomBytes(5).toString("hex")}`;

describe("the envelope", () => {
  test("every answer carries a request id, and an error repeats it", async () => {
    const ok = await world.call("GET", "/me");
    expect(ok.headers.get("x-request-id")).toMatch(/\S/);
    const error = await world.call("GET", "/nowhere", undefined, { headers: { "x-request-id": "my-id-1" } });
    expect(error.headers.get("x-request-id")).toBe("my-id-1");
    expect(error.body.error).toMatchObject({ code: "not_found", requestId: "my-id-1", details: [] });
    expect(error.body.error!.message).toMatch(/\w+.*\./);
  });

  test("unknown routes, wrong methods, unparsable and oversized bodies, other media types", async () => {
    const A = world.A;
    expect(refusal(await world.call("GET", "/nope"))).toBe("404 not_found");
    const wrong = await world.call("PUT", `${A}/projects`, {});
    expect(refusal(wrong)).toBe("405 method_not_allowed");
    expect(wrong.headers.get("allow")).toMatch(/GET.*POST|POST.*GET/);
    expect(refusal(await world.call("POST", `${A}/projects`, '{"name":'))).toBe("400 malformed_request");
    expect(refusal(await world.call("POST", `${A}/projects`, "[]"))).toMatch(/^4(00|22) /);
    const big = { name: "x".repeat(1024 * 1024 + 10) };
    expect(refusal(await world.call("POST", `${A}/projects`, big))).toBe("413 payload_too_large");
    const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
    expect(refusal(await world.call("POST", `${A}/projects`, "name=x", form))).toBe(
      "415 unsupported_media_type",
    );
  });

  test("without a token, with a damaged one, with another account's path", async () => {
    for (const token of ["", "nonsense", `berth_pat_${"a".repeat(36)}`]) {
      const answer = await world.call("GET", "/me", undefined, { token });
      expect(refusal(answer)).toBe("401 unauthenticated");
      expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
    }
    const unknown = await world.call("GET", "/accounts/acc_00000000000000000000000000/projects");
    expect(refusal(unknown)).toBe("403 forbidden");
    const stranger = await world.member("reader");
    const other = await world.must<{ id: string }>("POST", "/accounts", { handle: handle() });
    const foreign = await world.call("GET", `/accounts/${other.id}/projects`, undefined, {
      token: stranger.token,
    });
    expect(refusal(foreign)).toBe("403 forbidden");
    expect(foreign.body.error!.message).toBe(unknown.body.error!.message);
  });
});

describe("what the path names comes before what the request holds", () => {
  const below = allRoutes().filter(
    ({ follow, template }) => !follow && /^.accounts.{account_id}.*{/.test(template),
  );

  test.each(below.map((route) => [`${route.method} ${route.template}`, route]))("%s", async (_, route) => {
    const { projectId, environmentId, E } = await home();
    const names = { projectId, environmentId, service: "web" };
    for (const { name } of route.pathMembers.slice(1))
      for (const nobody of ["nobody", "no%00body"]) {
        const path = pathOf(route, { ...names, [name]: nobody });
        for (const [query, body] of badInputs(route))
          expect([query, body, refusal(await world.call(route.method, path + query, body))]).toEqual([
            query,
            body,
            "404 not_found",
          ]);
      }
    const stream = { headers: { accept: "text/event-stream" } };
    const logs = `${E}/services/nobody/logs?limit=0`;
    expect(refusal(await world.call("GET", logs, undefined, stream))).toBe("404 not_found");
  });

  test("an environment of another project, and a member of another account", async () => {
    const [mine, other] = [await home(), await world.environment()];
    const crossed = `${mine.P}/environments/${other.environmentId}`;
    expect(refusal(await world.call("POST", `${crossed}/services`, { nope: 1 }))).toBe("404 not_found");
    expect(refusal(await world.call("POST", `${mine.E}/services`, { nope: 1 }))).toBe("422 unknown_field");
    const account = await world.must<{ id: string }>("POST", "/accounts", { handle: handle() });
    const { userId } = await world.member("reader");
    const member = (id: string) => world.call("PATCH", `/accounts/${id}/members/${userId}`, { role: "king" });
    expect(refusal(await member(account.id))).toBe("404 not_found");
    expect(refusal(await member(world.accountId))).toBe("422 invalid_choice");
    expect(await world.must("GET", `${world.A}/members/${userId}`)).toMatchObject({ userId, role: "reader" });
  });

  let made: ReturnType<World["environment"]> | undefined;
  /** An environment with a service, made once. */
  function home() {
    made ??= world.environment().then(async (place) => {
      await world.must("POST", `${place.E}/services`, { name: "web", type: "web" });
      return place;
    });
    return made;
  }

  function pathOf(route: Route, names: Record<string, string>): string {
    const all: Record<string, string> = { accountId: world.accountId, ...names };
    return route.pattern.replaceAll(/:(\w+)/g, (_, name: string) => all[name] ?? "1");
  }

  /** Queries and bodies that are wrong, at the gateway and at the service. */
  function badInputs(route: Route): [query: string, body: unknown][] {
    const wrong = route.queryMembers.has("limit") ? ["?limit=0", "?limit=x", "?cursor=forged"] : [];
    const queries = ["?nope=1", ...wrong].map((query): [string, unknown] => [query, undefined]);
    if (route.method === "GET") return queries;
    const typed = Object.fromEntries([...route.bodyMembers.keys()].map((name) => [name, [[]]]));
    const texts = Object.fromEntries([...route.bodyMembers.keys()].map((name) => [name, "\0"]));
    return [
      ...queries,
      ...[{ nope: 1 }, typed, texts, {}, "[]", "{"].map((body): [string, unknown] => ["", body]),
    ];
  }
});

describe("Idempotency-Key", () => {
  test("the same request is answered once, another body is refused", async () => {
    const headers = { "idempotency-key": randomBytes(8).toString("hex") };
    const name = `i${randomBytes(4).toString("hex")}`;
    const first = await world.call<{ id: string }>("POST", `${world.A}/projects`, { name }, { headers });
    const again = await world.call<{ id: string }>("POST", `${world.A}/projects`, { name }, { headers });
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body.id).toBe(first.body.id);
    const other = await world.call("POST", `${world.A}/projects`, { name: "other" }, { headers });
    expect(refusal(other)).toBe("409 idempotency_key_reused");
  });

  test("a secret that is answered again lies nowhere in the database in plain", async () => {
    const headers = { "idempotency-key": randomBytes(8).toString("hex") };
    const make = () => world.call<{ token: string }>("POST", "/me/tokens", { name: "once" }, { headers });
    const [first, again] = [await make(), await make()];
    expect(again.body.token).toBe(first.body.token);
    const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: world.database.url("gateway") });
    await client.connect();
    const { rows } = await client.query("select * from idempotency_keys").catch(() => ({ rows: [] }));
    await client.end();
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows)
      for (const cell of Object.values(row)) {
        const text = Buffer.isBuffer(cell) ? cell.toString("latin1") : JSON.stringify(cell);
        expect(text).not.toContain(first.body.token);
      }
  });
});

describe("one request does not hurt others", () => {
  test("reads, and writes of other projects, are answered while batches of one project wait for each other", async () => {
    const [{ P }, other] = [await world.environment(), await world.environment()];
    await world.must("POST", `${P}/variables`, { name: "FIRST", value: "1" });
    const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: world.database.url("variables") });
    await client.connect();
    const waiting = async () => {
      const text = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and query like '%where id = $1 for no key update'`;
      // Within a transaction it would be what it was at first.
      await client.query("select pg_stat_clear_snapshot()");
      return (await client.query(text)).rowCount;
    };
    const set = Array.from({ length: 20 }, (_, n) => ({ name: `A${n}`, value: "v" }));
    let batches: ReturnType<World["call"]>[] = [];
    try {
      await client.query("begin");
      await client.query("select from scopes where id = $1 for update", [P.split("/").at(-1)]);
      batches = Array.from({ length: 12 }, () => world.call("POST", `${P}/variables/batch`, { set }));
      await eventually("one waits", async () => ((await waiting()) ?? 0) > 0);
      for (const place of [P, other.P])
        expect((await world.call("GET", `${place}/variables`)).status).toBe(200);
      const written = await world.call("POST", `${other.P}/variables`, { name: "A", value: "1" });
      expect(written.status).toBe(200);
      expect(await waiting()).toBe(1);
      await client.query("commit");
    } finally {
      await client.end();
    }
    const statuses = (await Promise.all(batches)).map(({ status }) => status);
    expect(statuses).toEqual(Array(12).fill(200));
  });

  test("what a body holds is bounded before it is read, and said with its place", async () => {
    const { P } = await world.environment();
    const batch = async (body: string) => {
      const answer = await world.call("POST", `${P}/variables/batch`, body);
      return [refusal(answer), answer.body.error?.details.map(({ path }: { path: string }) => path).join()];
    };
    const list = (one: string, count: number) => `[${Array(count).fill(one).join()}]`;
    expect(await batch(`{"set":${list("{}", 1_300_000)}}`)).toEqual(["422 batch_too_large", "set"]);
    expect(await batch(`{"unset":${list('"A"', 400_000)}}`)).toEqual(["422 batch_too_large", "unset"]);
    expect(await batch(`{"set":${list("{}", 501)}}`)).toEqual(["422 batch_too_large", "set"]);
    expect(await batch("[".repeat(1_000_000))).toEqual(["400 malformed_request", ""]);
    const large = JSON.stringify({ set: [{ name: "A", value: "x".repeat(400_000) }] });
    expect(await batch(large)).toEqual(["422 value_too_large", "set[0].value"]);
    const wrong = await world.call("POST", `${P}/variables/batch`, `{"set":${list('{"name":"-"}', 500)}}`);
    expect(wrong.body.error!.details).toHaveLength(20);
    const many = Array.from({ length: 75_000 }, (_, n) => `"k${n}":0`).join();
    expect(refusal(await world.call("POST", `${P}/variables`, `{${many}}`))).toBe("422 too_long");
  });

  test("a body is not read before the token is known, and a public route takes 16 KiB", async () => {
    const large = "[".repeat(500_000);
    const { P } = await world.environment();
    expect(refusal(await world.call("POST", `${P}/variables`, large, { token: "" }))).toBe(
      "401 unauthenticated",
    );
    expect(refusal(await world.call("POST", "/sessions", large, { token: "" }))).toBe(
      "413 payload_too_large",
    );
    const deep = "[".repeat(16_000);
    expect(refusal(await world.call("POST", "/sessions", deep, { token: "" }))).toBe("400 malformed_request");
  });
});

test("the OpenAPI document names every route, and the reference page shows without a network", async () => {
  const document = (await (await fetch(`${world.origin}/openapi.json`)).json()) as {
    openapi: string;
    paths: object;
  };
  expect(document.openapi).toMatch(/^3\.1/);
  expect(Object.keys(document.paths)).toEqual(
    expect.arrayContaining([expect.stringContaining("resolved-variables")]),
  );
  const page = await fetch(`${world.origin}/docs`);
  expect(page.status).toBe(200);
  expect(await page.text()).not.toMatch(/<script[^>]+src="https?:/);
});
