import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
