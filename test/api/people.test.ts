import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TierChangedSchema } from "../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../services/kit/events/outbox.ts";
import { createPool } from "../../services/kit/postgres/db.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, open, settled } from "../support/apps.ts";
import { bringIn, refusal } from "../support/door.ts";
import { connectApp } from "../support/oauth/application.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

const handle = () => `h${randomBytes(5).toString("hex")}`;

/** An account of the operator's own, apart from those of other tests. */
async function account() {
  const { id } = await world.must<{ id: string }>("POST", "/accounts", { handle: handle() });
  const A = `/accounts/${id}`;
  return { id, A, join: (role: "reader" | "editor" | "owner") => bringIn(world.call, A, role) };
}

type Listed<T> = { data: T[] };

/** What the audit log of an account says about an action. */
const audited = (A: string, action: string) =>
  eventually(action, async () => {
    const { data } = await world.must<Listed<{ actor: { id: string }; target: string }>>(
      "GET",
      `${A}/audit-events?action=${action}`,
    );
    return data.length > 0 && data;
  });

describe("members", () => {
  type Shown = { userId: string; displayName: string; role: string; email?: string };

  test("every member sees who else is one, and only owners see e-mails", async () => {
    const { A, join } = await account();
    const reader = await join("reader");
    const seenBy = (token?: string) => world.must<Listed<Shown>>("GET", `${A}/members`, undefined, token);
    const names = (await seenBy(reader.token)).data;
    expect(names).toMatchObject([{ userId: reader.userId, role: "reader" }, { role: "owner" }]);
    for (const member of names) expect(Object.keys(member)).not.toContain("email");
    const path = `${A}/members/${reader.userId}`;
    expect(await world.must("GET", path, undefined, reader.token)).toEqual(names[0]);
    const capped = { name: "ci", roleCap: "editor" };
    const { token } = await world.must<{ token: string }>("POST", "/me/tokens", capped);
    expect((await seenBy(token)).data).toEqual(names);
    expect((await seenBy()).data[0]).toEqual({ ...names[0], email: reader.email });
    const stranger = await world.member("owner");
    const asked = await world.call("GET", `${A}/members`, undefined, { token: stranger.token });
    expect(refusal(asked)).toBe("403 forbidden");
  });

  test.each(["reader", "editor"] as const)(
    "a %s leaves an account, and removes nobody else",
    async (role) => {
      const { A, join } = await account();
      const [leaving, other] = [await join(role), await join("reader")];
      const remove = (userId: string, token = leaving.token) =>
        world.call("DELETE", `${A}/members/${userId}`, undefined, { token });
      const refused = await remove(other.userId);
      expect([refusal(refused), refused.body.error?.requiredRole]).toEqual(["403 forbidden", "owner"]);
      const capped = { name: "ci", roleCap: "reader" };
      const limited = await world.must<{ token: string }>("POST", "/me/tokens", capped, leaving.token);
      expect(refusal(await remove(leaving.userId, limited.token))).toBe("403 forbidden");
      expect((await remove(leaving.userId)).status).toBe(204);
      const after = await world.call("GET", `${A}/projects`, undefined, { token: leaving.token });
      expect(refusal(after)).toBe("403 forbidden");
      const [left] = await audited(A, "member.leave");
      expect(left).toMatchObject({ actor: { id: leaving.userId }, target: leaving.userId });
    },
  );

  test("the last owner is told what to do before leaving", async () => {
    const { A, join } = await account();
    const second = await join("reader");
    const { id } = await world.must<{ id: string }>("GET", "/me");
    const leave = () => world.call("DELETE", `${A}/members/${id}`);
    const refused = await leave();
    expect(refusal(refused)).toBe("409 last_owner");
    expect(refused.body.error?.message).toContain("Make another member an owner first");
    await world.must("PATCH", `${A}/members/${second.userId}`, { role: "owner" });
    expect((await leave()).status).toBe(204);
  });
});

describe("the user's own name", () => {
  test("changes everywhere at once, and only by a token that stands for the whole user", async () => {
    const { A, join } = await account();
    const user = await join("reader");
    const rename = (body: object, token = user.token) => world.call("PATCH", "/me", body, { token });
    const renamed = await rename({ displayName: "Ada Lovelace" });
    expect(renamed.status).toBe(200);
    expect(renamed.body).toMatchObject({ id: user.userId, displayName: "Ada Lovelace", accounts: [{}] });
    expect(renamed.body).toEqual(await world.must("GET", "/me", undefined, user.token));
    const shown = await world.must("GET", `${A}/members/${user.userId}`);
    expect(shown).toMatchObject({ displayName: "Ada Lovelace" });
    expect(refusal(await rename({}))).toBe("422 empty_patch");
    expect(refusal(await rename({ displayName: "" }))).toBe("422 required");
    expect(refusal(await rename({ displayName: "n".repeat(81) }))).toBe("422 too_long");
    expect(refusal(await rename({ email: "other@example.com" }))).toBe("422 unknown_field");
    const capped = { name: "ci", roleCap: "reader" };
    const { token } = await world.must<{ token: string }>("POST", "/me/tokens", capped, user.token);
    expect(refusal(await rename({ displayName: "Mallory" }, token))).toBe("403 forbidden");
  });
});

describe("an account's plan", () => {
  test("is shown with what it allows, and without what it does not limit", async () => {
    const { id, A } = await account();
    type Shown = { plan: object; limits: object };
    const { plan, limits } = await world.must<Shown>("GET", A);
    expect(plan).toEqual({ tier: "enterprise" });
    const paid = { uploadBytes: 500 * 1024 ** 2, buildMinutes: 30 };
    expect(limits).toEqual({ ...paid, historyDepth: 500, backupDays: 7 });
    const changed = { accountId: id, tier: "free", revision: 1n };
    const pool = createPool(world.database.url("billing"), { max: 1 });
    await emit(pool, TierChangedSchema, id, changed);
    await pool.end();
    await eventually("the plan is free", async () => {
      const shown = await world.must<Shown>("GET", A);
      return isDeepStrictEqual(shown.plan, { tier: "free" }) && shown;
    });
    expect((await world.must<Shown>("GET", A)).limits).toEqual({
      ...{
        uploadBytes: 250 * 1024 ** 2,
        buildMinutes: 15,
        historyDepth: 5,
        backupDays: 7,
        buildsAtOnce: 1,
        addons: 2,
        storageGib: 1,
        domains: 1,
        runsAtOnce: 1,
      },
      ...{ projects: 1, servicesPerType: 1, replicas: 1, size: "nano", members: 1 },
    });
    const { data } = await world.must<Listed<object>>("GET", "/accounts");
    for (const one of data) expect(Object.keys(one)).not.toContain("limits");
  });
});

describe("applications that members connected", () => {
  type Grant = { id: string; clientId: string; clientName: string; userId: string; role: string };

  test("are seen by owners at their effective role, and end at once for the account alone", async () => {
    const [{ id, A, join }, other] = [await account(), await account()];
    const user = await join("editor");
    const connect = (accountId: string, token: string, clientId?: string) =>
      connectApp(world, { token, accountId, role: "editor", name: "Claude", ...(clientId && { clientId }) });
    const app = await connect(id, user.token);
    await connect(id, user.token, app.clientId);
    const owners = await connect(other.id, world.ownerToken, app.clientId);
    const list = () => world.must<Listed<Grant>>("GET", `${A}/grants`);
    const [grant, ...rest] = (await list()).data;
    expect(grant).toMatchObject({ clientId: app.clientId, clientName: "Claude", userId: user.userId });
    expect([grant!.role, rest]).toEqual(["editor", []]);
    await world.must("PATCH", `${A}/members/${user.userId}`, { role: "reader" });
    expect((await list()).data[0]!.role).toBe("reader");
    const seen = (at: string) => world.call("GET", `${at}/grants/${grant!.id}`);
    expect((await seen(A)).body).toEqual((await list()).data[0]);
    for (const token of [user.token, app.accessToken]) {
      const [listed, ended] = [
        await world.call("GET", `${A}/grants`, undefined, { token }),
        await world.call("DELETE", `${A}/grants/${grant!.id}`, undefined, { token }),
      ];
      expect([listed.status, ended.status]).toEqual([403, 403]);
    }
    const revoke = (at: string) => world.call("DELETE", `${at}/grants/${grant!.id}`);
    expect([refusal(await seen(other.A)), refusal(await revoke(other.A))]).toEqual([
      "404 not_found",
      "404 not_found",
    ]);
    expect((await revoke(A)).status).toBe(204);
    expect(refusal(await seen(A))).toBe("404 not_found");
    const read = (token: string, at: string) => world.call("GET", `${at}/projects`, undefined, { token });
    expect(refusal(await read(app.accessToken, A))).toBe("401 unauthenticated");
    expect(await app.refused()).toMatch(/^400 /);
    expect((await read(owners.accessToken, other.A)).status).toBe(200);
    expect((await revoke(A)).status).toBe(204);
    expect((await list()).data).toEqual([]);
    expect(await audited(A, "oauth.grant.revoked")).toHaveLength(2);
    await eventually("the member is told, once", async () => {
      const { data } = await world.must<Listed<{ kind: string; body: string }>>(
        "GET",
        "/notifications?limit=100",
        undefined,
        user.token,
      );
      const told = data.filter(({ kind }) => kind === "security.oauth_revoked");
      return told.length === 1 && told[0]!.body.startsWith("An owner of the account revoked");
    });
  });
});

describe("a user who deletes himself", () => {
  const remove = (token: string, password: string) => world.call("DELETE", "/me", { password }, { token });

  test("names the accounts that nobody else owns before, and is nowhere afterwards", async () => {
    const shared = await account();
    const user = await shared.join("editor");
    const own = handle();
    const made = await world.must<{ id: string }>("POST", "/accounts", { handle: own }, user.token);
    const pat = await world.must<{ token: string }>("POST", "/me/tokens", { name: "ci" }, user.token);
    const low = { name: "low", accountId: shared.id };
    const bound = await world.must<{ token: string }>("POST", "/me/tokens", low, user.token);
    const app = await connectApp(world, { token: user.token, accountId: shared.id, role: "reader" });
    await world.must("POST", `${shared.A}/projects`, { name: "by-user" }, user.token);

    expect(refusal(await remove(bound.token, user.password))).toBe("403 forbidden");
    expect(refusal(await remove(user.token, "not the password"))).toBe("422 wrong_password");
    const inQuery = await world.call("DELETE", `/me?password=${user.password}`, undefined, {
      token: user.token,
    });
    expect(inQuery.status).toBe(422);
    const refused = await remove(user.token, user.password);
    expect(refusal(refused)).toBe("409 last_owner");
    expect(refused.body.error).toMatchObject({ accounts: [{ id: made.id, handle: own }] });
    expect(refused.body.error!.message).toContain(own);

    const { email } = await world.must<{ email: string }>("GET", "/me");
    const path = `/accounts/${made.id}/members`;
    const { id } = await world.must<{ id: string }>("POST", path, { email, role: "owner" }, user.token);
    await world.must("POST", `/me/invitations/${id}/accept`);

    expect((await remove(user.token, user.password)).status).toBe(204);
    for (const token of [user.token, pat.token, bound.token, app.accessToken])
      expect((await world.call("GET", "/accounts", undefined, { token })).status).toBe(401);
    expect(await app.refused()).toMatch(/^400 /);
    const signIn = { email: user.email, password: user.password };
    expect(refusal(await world.call("POST", "/sessions", signIn, { token: "" }))).toBe("401 unauthenticated");
    const { data } = await world.must<Listed<object>>("GET", `${shared.A}/members`);
    expect(JSON.stringify(data)).not.toContain(user.userId);
    const [left] = await audited(shared.A, "member.leave");
    expect(left).toMatchObject({ actor: { id: user.userId }, target: user.userId });
    const pool = createPool(world.database.url("notifications"), { max: 1 });
    await eventually("the feed is gone", async () => {
      const { rows } = await pool.query("select from notifications where user_id = $1", [user.userId]);
      return rows.length === 0;
    });
    await pool.end();

    const { link } = await world.must<{ link: string }>("POST", `${shared.A}/members`, {
      email: user.email,
      role: "reader",
    });
    const join = { token: new URL(link).hash.slice(1), password: "another-long-password" };
    const again = await world.call<{ user: { id: string } }>("POST", "/invitations/join", join, {
      token: "",
    });
    expect(again.status).toBe(201);
    expect(again.body.user.id).not.toBe(user.userId);
  });

  test("is not the one whom the installation's settings name", async () => {
    const { token } = await world.must<{ token: string }>(
      "POST",
      "/sessions",
      { email: "owner@example.com", password: "a-password-of-the-owner" },
      "",
    );
    expect(refusal(await remove(token, "a-password-of-the-owner"))).toBe("409 first_owner");
    expect((await world.call("GET", "/me")).status).toBe(200);
  });

  test("of two owners who delete themselves at once, one stays", async () => {
    const { A, join } = await account();
    const [one, two] = [await join("owner"), await join("owner")];
    const me = await world.must<{ id: string }>("GET", "/me");
    await world.must("DELETE", `${A}/members/${me.id}`);
    const answers = await Promise.all([one, two].map(({ token, password }) => remove(token, password)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 409]);
  });
});

describe("an account that its owner deletes", () => {
  const remove = (A: string, token: string, body?: object) => world.call("DELETE", A, body, { token });

  /** An account with a member of another one, a project with a running app, variables, a token and an application. */
  async function furnished() {
    const made = await account();
    const { A, id, join } = made;
    const [owner, reader] = [await join("owner"), await join("reader")];
    const project = await world.must<{ id: string }>("POST", `${A}/projects`, { name: "shop" });
    const P = `${A}/projects/${project.id}`;
    const { id: environmentId } = await world.must<{ id: string }>("POST", `${P}/environments`, {
      name: "live",
    });
    const E = `${P}/environments/${environmentId}`;
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await world.must("POST", `${P}/variables`, { name: "KEY", value: "marker", sensitive: true });
    await deployArchive(world, `${E}/services/web`, await archiveOf("node"));
    await settled(world, `${E}/services/web`, 1);
    const { url } = await world.must<{ url: string }>("GET", `${E}/services/web`);
    const pat = await world.must<{ token: string }>(
      "POST",
      "/me/tokens",
      { name: "ci", accountId: id },
      reader.token,
    );
    const app = await connectApp(world, { token: reader.token, accountId: id, role: "reader" });
    return { ...made, owner, reader, P, url, pat, app };
  }

  test("says what goes, and then stops and removes it, for everybody", async () => {
    const { A, id, owner, reader, P, url, pat, app } = await furnished();
    const { handle: freed } = await world.must<{ handle: string }>("GET", A);
    const asked = await remove(A, owner.token);
    expect(refusal(asked)).toBe("409 impact_confirmation_required");
    expect(asked.body.error!.impact).toEqual({ projects: 1, environments: 1, services: 1, members: 3 });
    expect(refusal(await remove(A, reader.token, { confirmImpact: true }))).toBe("403 forbidden");
    const stranger = await world.member("owner");
    expect(refusal(await remove(A, stranger.token, { confirmImpact: true }))).toBe("403 forbidden");
    expect((await open(url)).status).toBe(200);

    expect((await remove(A, owner.token, { confirmImpact: true })).status).toBe(204);
    for (const token of [owner.token, reader.token, world.ownerToken])
      for (const path of [A, P, `${P}/variables`])
        expect(refusal(await world.call("GET", path, undefined, { token }))).toBe("403 forbidden");
    for (const token of [pat.token, app.accessToken])
      expect(refusal(await world.call("GET", P, undefined, { token }))).toBe("401 unauthenticated");
    expect(
      (await world.must<{ accounts: object[] }>("GET", "/me", undefined, reader.token)).accounts,
    ).toEqual([]);
    expect(refusal(await remove(A, owner.token, { confirmImpact: true }))).toBe("403 forbidden");
    const again = await world.must<{ id: string }>("POST", "/accounts", { handle: freed }, owner.token);
    expect(again.id).not.toBe(id);

    await eventually("the app is gone", async () => (await open(url)).status === 404);
    const left: [string, string][] = [
      ["deployer", "select from projects where account_id = $1"],
      ["variables", "select from data_keys where account_id = $1"],
      ["variables", "select from variables v join scopes s on s.id = v.scope_id where s.account_id = $1"],
      ["notifications", "select from notifications where account_id = $1 and kind = 'deploy.ready'"],
    ];
    for (const [service, query] of left) {
      const pool = createPool(world.database.url(service), { max: 1 });
      await eventually(`${service}: ${query}`, async () => (await pool.query(query, [id])).rowCount === 0);
      await pool.end();
    }
    await eventually("a member is told", async () => {
      const { data } = await world.must<Listed<{ kind: string; title: string }>>(
        "GET",
        "/notifications?limit=100",
        undefined,
        reader.token,
      );
      return data.some(({ kind, title }) => kind === "member.removed" && title.includes(freed));
    });
  });

  test("is neither the installation's first one, nor one whose subscription runs", async () => {
    const first = await remove(world.A, world.ownerToken, { confirmImpact: true });
    expect(refusal(first)).toBe("409 first_account");
    const { id, A } = await account();
    const pool = createPool(world.database.url("billing"), { max: 1 });
    await pool.query(
      "insert into accounts (id, tier, tier_revision, direct_agreement) values ($1, 'team', 1, true)",
      [id],
    );
    await pool.end();
    const refused = await remove(A, world.ownerToken, { confirmImpact: true });
    expect(refusal(refused)).toBe("409 subscription_active");
    expect((await world.call("GET", A)).status).toBe(200);
  });

  test("has nothing in it that was created while it was deleted", async () => {
    const { id, A } = await account();
    const token = world.ownerToken;
    const names = Array.from({ length: 8 }, (_, n) => `p${n}`);
    const [answer] = await Promise.all([
      remove(A, token, { confirmImpact: true }),
      ...names.map((name) => world.call("POST", `${A}/projects`, { name }, { token })),
    ]);
    expect(answer.status).toBe(204);
    const pool = createPool(world.database.url("deployer"), { max: 1 });
    const deleted = "select from accounts where id = $1 and deleted_at is not null";
    await eventually("the deployer knows", async () => (await pool.query(deleted, [id])).rowCount === 1);
    const query = "select from projects where account_id = $1 and deleting_at is null";
    expect((await pool.query(query, [id])).rowCount).toBe(0);
    await pool.end();
  });
});

describe("renaming", () => {
  type Service = { id: string; name: string; url: string; status: string; pendingChanges: boolean };

  /** A project with an environment, in which an app runs. */
  async function deployed() {
    const made = await world.environment();
    await world.must("POST", `${made.E}/services`, { name: "web", type: "web" });
    const S = made.S("web");
    await deployArchive(world, S, await archiveOf("node"));
    await settled(world, S, 1);
    const { url } = await world.must<Service>("GET", S);
    return { ...made, url };
  }

  /** Waits until the service at a path answers at this host. */
  const answersAt = (S: string, host: string) =>
    eventually(`${S} answers at ${host}`, async () => {
      const service = await world.must<Service>("GET", S);
      if (new URL(service.url).hostname !== `${host}.localhost` || service.status !== "running") return false;
      return (await open(service.url)).status === 200 && service;
    });

  test("an environment and a project that are renamed take the addresses of their apps along", async () => {
    const { P, E, S, name, projectId, url } = await deployed();
    const renamed = await world.call("PATCH", E, { name: "live" });
    expect([renamed.status, renamed.body]).toMatchObject([200, { projectId, name: "live" }]);
    expect(renamed.body).toEqual(await world.must("GET", E));
    await answersAt(S("web"), `web-live-${name}`);
    expect((await open(url)).status).toBe(404);
    await world.must("PATCH", P, { name: `${name}x` });
    const moved = await answersAt(S("web"), `web-live-${name}x`);
    expect(moved.pendingChanges).toBe(false);
    expect((await world.must<{ data: object[] }>("GET", `${S("web")}/deployments`)).data).toHaveLength(1);
    const events = await audited(world.A, "environment.update");
    expect(events).toMatchObject([{ target: E.split("/").at(-1) }]);
  });

  test("a service that is renamed is at its new path alone, with all that it had, and answers at its new address", async () => {
    const { E, S, name, url } = await deployed();
    const web = await world.must<Service>("GET", S("web"));
    await world.must("POST", `${S("web")}/variables`, { name: "LEVEL", value: "info" });
    await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
    const connection = { service: "db", key: "HOST" };
    await world.must("POST", `${E}/variables`, { name: "DB_HOST", connection });
    const renamed = await world.call("PATCH", S("web"), { name: "site" });
    expect([renamed.status, renamed.body]).toMatchObject([200, { id: web.id, name: "site" }]);
    for (const path of ["", "/deployments", "/deployments/1", "/logs", "/variables", "/variables/LEVEL"]) {
      expect([path, refusal(await world.call("GET", `${S("web")}${path}`))]).toEqual([path, "404 not_found"]);
      expect([path, (await world.call("GET", `${S("site")}${path}`)).status]).toEqual([path, 200]);
    }
    const write = await world.call("POST", `${S("web")}/variables`, { name: "LATE", value: "1" });
    expect(refusal(write)).toBe("404 not_found");
    expect(refusal(await world.call("PATCH", S("web"), { name: "again" }))).toBe("404 not_found");
    const moved = await answersAt(S("site"), `site-production-${name}`);
    expect(moved).toMatchObject({ id: web.id, pendingChanges: false });
    expect((await open(url)).status).toBe(404);
    const other = await world.must<Service>("POST", `${E}/services`, { name: "web", type: "web" });
    type Entry = { name: string; value?: string };
    const namesAt = async (S: string) =>
      (await world.must<Listed<Entry>>("GET", `${S}/variables`)).data.map(({ name }) => name);
    expect([await namesAt(S("web")), await namesAt(S("site"))]).toEqual([[], ["LEVEL"]]);
    await world.must("POST", `${S("web")}/variables`, { name: "OTHER", value: "1" });
    expect([await namesAt(S("web")), await namesAt(S("site"))]).toEqual([["OTHER"], ["LEVEL"]]);
    await eventually("the connection resolves in both", async () => {
      const sets = await Promise.all(
        ["web", "site"].map((one) => world.must<Listed<Entry>>("GET", `${S(one)}/resolved-variables`)),
      );
      return sets.every(({ data }) => data.some(({ name, value }) => name === "DB_HOST" && value));
    });
    await deployArchive(world, S("web"), await archiveOf("node"));
    await settled(world, S("web"), 1);
    await answersAt(S("web"), `web-production-${name}`);
    await answersAt(S("site"), `site-production-${name}`);
    expect((await world.must<Listed<object>>("GET", `${S("site")}/deployments`)).data).toHaveLength(1);
    expect(other.id).not.toBe(web.id);
    type Recorded = { target: string; metadata: Record<string, string> };
    const events = (await audited(world.A, "service.update")) as unknown as Recorded[];
    expect(events.find(({ target }) => target === web.id)?.metadata).toEqual({
      name: "site",
      formerName: "web",
    });
  });

  test("a service takes no name of another and no bad one, an addon keeps its own, and what is staged need not", async () => {
    const { E, S } = await world.environment();
    const make = (name: string, type: string, more = {}) =>
      world.must<Service>("POST", `${E}/services`, { name, type, ...more });
    const [jobs, db] = [await make("jobs", "worker", { staged: true }), await make("db", "postgres")];
    await make("web", "web");
    const rename = (from: string, name: unknown, token?: string) =>
      world.call("PATCH", S(from), { name }, token === undefined ? {} : { token });
    for (const taken of ["web", "db"]) expect(refusal(await rename("jobs", taken))).toBe("409 name_taken");
    for (const bad of ["", "A", "1a", "a_b", "a".repeat(41)])
      expect([bad, refusal(await rename("jobs", bad))]).toEqual([bad, "422 invalid_name"]);
    const refused = await rename("db", "data");
    expect([refusal(refused), refused.body.error!.message]).toEqual([
      "422 not_deployable",
      "A postgres addon cannot be renamed, as connections refer to it by its name; only web, worker and cron services can.",
    ]);
    expect((await rename("db", "db")).body).toMatchObject({ id: db.id, name: "db" });
    expect(await world.must("GET", S("jobs"))).toMatchObject({ id: jobs.id, name: "jobs" });
    const [reader, editor] = [await world.member("reader"), await world.member("editor")];
    expect(refusal(await rename("jobs", "tasks", reader.token))).toBe("403 forbidden");
    expect((await rename("jobs", "tasks", editor.token)).body).toMatchObject({
      ...{ id: jobs.id, name: "tasks", staged: true, status: "staged" },
    });
    const both = { name: "batch", config: { size: "small" } };
    expect(await world.must("PATCH", S("tasks"), both)).toMatchObject({
      name: "batch",
      config: { size: "small" },
    });
    expect(await world.must("POST", `${E}/apply`, {})).toEqual({ applied: [jobs.id] });
    const wanting = await Promise.all([
      rename("batch", "wanted"),
      rename("web", "wanted"),
      world.call("POST", `${E}/services`, { name: "wanted", type: "worker" }),
    ]);
    expect(wanting.map(({ status }) => status).filter((status) => status === 409)).toHaveLength(2);
    expect(refusal(await rename("none", "some"))).toBe("404 not_found");
  });

  test("an environment takes no name of another, no bad one, and none from whoever may not rename it", async () => {
    const { P, E } = await world.environment();
    await world.must("POST", `${P}/environments`, { name: "staging" });
    const rename = (name: unknown, token?: string) =>
      world.call("PATCH", E, { name }, token === undefined ? {} : { token });
    expect(refusal(await rename("staging"))).toBe("409 name_taken");
    expect(refusal(await rename("A"))).toBe("422 invalid_name");
    expect((await rename("production")).status).toBe(200);
    const [reader, editor] = [await world.member("reader"), await world.member("editor")];
    expect(refusal(await rename("live", reader.token))).toBe("403 forbidden");
    expect((await rename("live", editor.token)).status).toBe(200);
    const { A } = await account();
    const elsewhere = await world.call("PATCH", E.replace(world.A, A), { name: "mine" });
    expect(refusal(elsewhere)).toBe("404 not_found");
    const wanting = await Promise.all([
      rename("wanted"),
      world.call("POST", `${P}/environments`, { name: "wanted" }),
    ]);
    const statuses = wanting.map(({ status }) => status);
    expect(statuses.filter((status) => status === 409)).toHaveLength(1);
  });
});
