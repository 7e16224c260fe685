import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { allRoutes, type Route } from "../../gateway/routing/routes.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Answer, refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

/** Other gateways learn of a revocation by event: refused within moments, never later than the cache's life. */
const refusedSoon = (expected: string, request: () => Promise<Answer>) =>
  eventually(expected, async () => refusal(await request()) === expected);

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

describe("accounts and members", () => {
  test("an account just made is usable at once, by its owner alone", async () => {
    const account = await world.must<{ id: string; myRole: string }>("POST", "/accounts", {
      handle: handle(),
    });
    expect(account.myRole).toBe("owner");
    expect((await world.call("GET", `/accounts/${account.id}/projects`)).status).toBe(200);
    const { token } = await world.member("owner");
    expect(refusal(await world.call("GET", `/accounts/${account.id}`, undefined, { token }))).toBe(
      "403 forbidden",
    );
  });

  test("handles are checked and unique", async () => {
    for (const bad of ["ab", "Ab-cd", "-abc", "a".repeat(40), "a_b"])
      expect(refusal(await world.call("POST", "/accounts", { handle: bad }))).toBe("422 invalid_handle");
    const taken = handle();
    await world.must("POST", "/accounts", { handle: taken });
    expect(refusal(await world.call("POST", "/accounts", { handle: taken }))).toBe("409 handle_taken");
  });

  test("a removed member is refused at once; the last owner stays", async () => {
    const { userId, token } = await world.member("editor");
    expect((await world.call("GET", `${world.A}/projects`, undefined, { token })).status).toBe(200);
    expect((await world.call("DELETE", `${world.A}/members/${userId}`)).status).toBe(204);
    expect(refusal(await world.call("GET", `${world.A}/projects`, undefined, { token }))).toBe(
      "403 forbidden",
    );
    const mine = await world.must<{ id: string }>("POST", "/accounts", { handle: handle() });
    const me = await world.must<{ id: string }>("GET", "/me");
    const path = `/accounts/${mine.id}/members/${me.id}`;
    expect(refusal(await world.call("DELETE", path))).toBe("409 last_owner");
    expect(refusal(await world.call("PATCH", path, { role: "reader" }))).toBe("409 last_owner");
    expect(refusal(await world.call("PATCH", path, { role: "king" }))).toBe("422 invalid_choice");
  });

  test("a lowered role holds at once", async () => {
    const { userId, token } = await world.member("editor");
    const name = () => `r${randomBytes(4).toString("hex")}`;
    expect((await world.call("POST", `${world.A}/projects`, { name: name() }, { token })).status).toBe(201);
    await world.must("PATCH", `${world.A}/members/${userId}`, { role: "reader" });
    await refusedSoon("403 forbidden", () =>
      world.call("POST", `${world.A}/projects`, { name: name() }, { token }),
    );
  });
});

describe("sessions and tokens", () => {
  test("a wrong password and an unknown e-mail get one answer", async () => {
    const { email } = await world.member("reader");
    const wrong = await world.call(
      "POST",
      "/sessions",
      { email, password: "not-the-password" },
      { token: "" },
    );
    const unknown = await world.call(
      "POST",
      "/sessions",
      { email: "no@example.com", password: "x" },
      { token: "" },
    );
    expect(refusal(wrong)).toBe("401 unauthenticated");
    expect(unknown.body.error!.message).toBe(wrong.body.error!.message);
  });

  test("ten failures close the door for a while", async () => {
    const { email } = await world.member("reader");
    for (let i = 0; i < 10; i++)
      await world.call("POST", "/sessions", { email, password: "wrong" }, { token: "" });
    const closed = await world.call("POST", "/sessions", { email, password: "wrong" }, { token: "" });
    expect(refusal(closed)).toBe("429 rate_limited");
    expect(Number(closed.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("signing out ends the session at once", async () => {
    const { token } = await world.member("reader");
    expect((await world.call("DELETE", "/sessions", undefined, { token })).status).toBe(204);
    await refusedSoon("401 unauthenticated", () => world.call("GET", "/me", undefined, { token }));
  });

  test("a token is shown once, caps its role, and stops when revoked", async () => {
    const made = await world.must<{ id: string; token: string }>("POST", "/me/tokens", {
      name: "ci",
      roleCap: "reader",
    });
    expect(made.token).toMatch(/^berth_pat_[0-9A-Za-z]{36}$/);
    const listed = await world.call("GET", "/me/tokens");
    expect(JSON.stringify(listed.body)).not.toContain(made.token);
    const token = made.token;
    expect((await world.call("GET", `${world.A}/projects`, undefined, { token })).status).toBe(200);
    const write = await world.call("POST", `${world.A}/projects`, { name: "x" }, { token });
    expect(refusal(write)).toBe("403 forbidden");
    expect((await world.call("DELETE", `/me/tokens/${made.id}`)).status).toBe(204);
    expect(refusal(await world.call("GET", `${world.A}/projects`, undefined, { token }))).toBe(
      "401 unauthenticated",
    );
    expect(refusal(await world.call("DELETE", "/me/tokens/tok_00000000000000000000000000"))).toBe(
      "404 not_found",
    );
    expect(refusal(await world.call("POST", "/me/tokens", { name: "x", expiresInDays: 366 }))).toBe(
      "422 out_of_range",
    );
  });
});

describe("projects, environments and services", () => {
  test("names are checked and unique in their parent", async () => {
    const { name, P, E } = await world.environment();
    expect(refusal(await world.call("POST", `${world.A}/projects`, { name }))).toBe("409 name_taken");
    expect(refusal(await world.call("POST", `${P}/environments`, { name: "production" }))).toBe(
      "409 name_taken",
    );
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    expect(refusal(await world.call("POST", `${E}/services`, { name: "web", type: "worker" }))).toBe(
      "409 name_taken",
    );
    for (const bad of ["", "1a", "A", "a_b", "a".repeat(41)]) {
      expect(refusal(await world.call("POST", `${world.A}/projects`, { name: bad }))).toBe(
        "422 invalid_name",
      );
      expect(refusal(await world.call("POST", `${P}/environments`, { name: bad }))).toBe("422 invalid_name");
      expect(refusal(await world.call("POST", `${E}/services`, { name: bad, type: "web" }))).toBe(
        "422 invalid_name",
      );
    }
    expect(refusal(await world.call("POST", `${E}/services`, { name: "x", type: "cron" }))).toBe(
      "422 invalid_choice",
    );
    const config = { port: 70000 };
    expect(refusal(await world.call("POST", `${E}/services`, { name: "x", type: "web", config }))).toBe(
      "422 out_of_range",
    );
  });

  test("a service shows its defaults, takes changes member by member, and lists", async () => {
    const { E, S } = await world.environment();
    const made = await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    expect(made).toMatchObject({ status: "pending", source: {}, pendingChanges: false, staged: false });
    expect(made.config).toMatchObject({ port: 8080, replicas: 1, size: "nano" });
    const changed = await world.must("PATCH", S("web"), { config: { size: "small" } });
    expect(changed.config).toMatchObject({ port: 8080, size: "small" });
    expect(refusal(await world.call("PATCH", S("web"), {}))).toBe("422 empty_patch");
    expect(refusal(await world.call("PATCH", S("web"), { config: { colour: "red" } }))).toBe(
      "422 unknown_field",
    );
    const list = await world.must<{ data: { name: string }[] }>("GET", `${E}/services`);
    expect(list.data.map((s) => s.name)).toEqual(["web"]);
    expect(refusal(await world.call("GET", S("nope")))).toBe("404 not_found");
    expect((await world.call("DELETE", S("web"))).status).toBe(204);
    await refusedSoon("404 not_found", () => world.call("GET", S("web")));
  });

  test("what is wrong with a request is said in a sentence that names the member", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    const said = async (method: string, path: string, body?: unknown) => {
      const { error } = (await world.call(method, path, body)).body;
      expect(error!.details[0]!.message).toBe(error!.message);
      return `${error!.details[0]!.reason}: ${error!.message}`;
    };
    const create = (more: object) => said("POST", `${E}/services`, { name: "x", type: "web", ...more });
    const git = { repository: "https://git.example.com/a.git" };
    expect(await create({ source: { git } })).toBe("required: source.git.branch is required.");
    expect(await create({ source: { image: "" } })).toBe("required: source.image must not be empty.");
    expect(await create({ source: { image: "x".repeat(513) } })).toBe(
      "too_long: source.image may have at most 512 characters.",
    );
    expect(await create({ type: "cron" })).toBe(
      "invalid_choice: type must be web, worker, postgres, or redis.",
    );
    expect(await create({ config: { port: 0 } })).toBe("out_of_range: config.port must be from 1 to 65535.");
    expect(await create({ config: { replicas: "2" } })).toBe(
      "invalid_type: config.replicas must be a whole number.",
    );
    expect(await create({ name: "1" })).toBe(
      "invalid_name: name must be 1-40 of a-z, 0-9 and -, and start with a letter.",
    );
    expect(await said("PATCH", S("web"), { unsetEnv: Array(101).fill("A") })).toBe(
      "too_long: unsetEnv may have at most 100 entries.",
    );
    expect(await said("POST", `${S("web")}/uploads`, { sizeBytes: -1 })).toBe(
      "out_of_range: sizeBytes must be 0 or more.",
    );
    expect(await said("POST", `${S("web")}/rollback`, {})).toBe("required: version is required.");
    expect(await said("POST", "/me/tokens", { name: "" })).toBe("required: name is required.");
  });

  test("text that cannot be stored is refused, wherever it stands in a source or a configuration", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    for (const bad of ["a\\u0000b", "a\\ud800b"])
      for (const body of [
        `{"source":{"image":"${bad}"}}`,
        `{"source":{"git":{"repository":"https://example.com/${bad}.git","branch":"main"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"${bad}"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"b","contextDir":"${bad}"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"b","tokenVariable":"${bad}"}}}`,
        `{"config":{"command":"${bad}"}}`,
        `{"config":{"dockerfile":"${bad}"}}`,
        `{"config":{"healthCheckPath":"/${bad}"}}`,
        `{"config":{"size":"${bad}"}}`,
        `{"config":{"env":{"A":"${bad}"}}}`,
        `{"config":{"env":{"${bad}":"1"}}}`,
      ]) {
        expect([body, (await world.call("PATCH", S("web"), body)).status]).toEqual([body, 422]);
        const whole = `{"name":"x","type":"web",${body.slice(1)}`;
        expect([body, (await world.call("POST", `${E}/services`, whole)).status]).toEqual([body, 422]);
      }
    const deploy = await world.call("POST", `${S("web")}/deploy`, '{"image":"a\\u0000b"}');
    expect(refusal(deploy)).toBe("422 invalid_image");
  });

  test("deploying what cannot be deployed says why", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await world.must("POST", `${E}/services`, { name: "api", type: "web" });
    await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
    expect(refusal(await world.call("POST", `${S("web")}/deploy`, {}))).toBe("422 no_deployable_image");
    expect(refusal(await world.call("POST", `${S("db")}/uploads`, {}))).toBe("422 not_deployable");
    expect(refusal(await world.call("POST", `${S("db")}/deploy`, { image: "x" }))).toBe("422 not_deployable");
    const tooLarge = { sizeBytes: 300 * 1024 * 1024 };
    expect(refusal(await world.call("POST", `${S("web")}/uploads`, tooLarge))).toBe("422 archive_too_large");
    for (const [size, said] of [
      ["2147483647", "archive_too_large"],
      ["2147483648", "archive_too_large"],
      ["1e300", "archive_too_large"],
      ["1e999", "archive_too_large"],
      ["-1", "out_of_range"],
      ["-1e300", "out_of_range"],
      ["1.5", "invalid_type"],
    ])
      expect([
        size,
        refusal(await world.call("POST", `${S("web")}/uploads`, `{"sizeBytes":${size}}`)),
      ]).toEqual([size, `422 ${said}`]);
    const upload = await world.must<{ archiveRef: string; uploadUrl: string; contentType: string }>(
      "POST",
      `${S("web")}/uploads`,
      {},
    );
    const archive = { archiveRef: upload.archiveRef };
    const deploy = async (service: string, body: unknown) =>
      refusal(await world.call("POST", `${S(service)}/deploy-from-archive`, body));
    expect(await deploy("web", archive)).toBe("422 archive_not_uploaded");
    expect(await deploy("api", archive)).toBe("422 archive_ref_mismatch");
    expect(await deploy("web", { archiveRef: "arc_forged" })).toBe("422 archive_ref_mismatch");
    const put = await fetch(upload.uploadUrl, {
      method: "PUT",
      headers: { "content-type": "text/plain" },
      body: "x",
    });
    expect(put.status).toBeGreaterThanOrEqual(400);
    expect(await put.json()).toHaveProperty("error.code");
    for (const path of ["deployments/7", "deployments/7/build-logs"])
      expect(refusal(await world.call("GET", `${S("web")}/${path}`))).toBe("404 not_found");
    const logs = await world.call("GET", `${S("web")}/logs?limit=1001`);
    expect(refusal(logs)).toBe("422 out_of_range");
  });

  test("a staged service acknowledges an archive and deploys it when the canvas is applied", async () => {
    const { E, S } = await world.environment();
    const made = await world.must("POST", `${E}/services`, { name: "web", type: "web", staged: true });
    expect(made).toMatchObject({ status: "staged", staged: true });
    expect(await world.must("POST", `${E}/apply`, {})).toEqual({ applied: [made.id] });
    expect(await world.must("GET", S("web"))).toMatchObject({ staged: false });
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
