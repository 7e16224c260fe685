import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Mailbox, secretLinkIn, startMailbox } from "../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

const PASSWORD = "a-long-first-password";
const ANYBODY = { token: "" };

const signIn = (world: World, email: string, password: string) =>
  world.call<{ token: string }>("POST", "/sessions", { email, password }, ANYBODY);

/** Somebody who is no operator, in an account of their own. */
async function owner(world: World) {
  const person = await world.member("reader");
  const handle = `h${person.userId.slice(-20)}`;
  const account = await world.must<{ id: string }>("POST", "/accounts", { handle }, person.token);
  return { ...person, A: `/accounts/${account.id}` };
}

describe("without mail", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());

  test("nobody makes a user for somebody else's e-mail, nor a member who did not accept", async () => {
    const { A, token } = await owner(world);
    const victim = { email: "victim@example.com", role: "reader" };
    const chosen = await world.call("POST", `${A}/members`, { ...victim, password: PASSWORD }, { token });
    expect(refusal(chosen)).toBe("422 unknown_field");
    const invited = await world.call("POST", `${A}/members`, victim, { token });
    expect([invited.status, invited.body.status]).toEqual([201, "invited"]);
    expect(invited.body).not.toHaveProperty("link");
    expect((await signIn(world, victim.email, PASSWORD)).status).toBe(401);
    const { data } = await world.must<{ data: object[] }>("GET", `${A}/members`, undefined, token);
    expect(data).toHaveLength(1);
  });

  test("an operator brings somebody in by a link, and another account by an invitation to accept", async () => {
    const ada = await world.member("editor");
    const { A, token } = await owner(world);
    const { id } = await world.must<{ id: string }>(
      "POST",
      `${A}/members`,
      { email: ada.email, role: "owner" },
      token,
    );
    const before = await world.call("GET", `${A}/projects`, undefined, { token: ada.token });
    expect(refusal(before)).toBe("403 forbidden");
    const mine = await world.must<{ data: object[] }>("GET", "/me/invitations", undefined, ada.token);
    expect(mine.data).toMatchObject([{ id, role: "owner" }]);
    const accepted = await world.call("POST", `/me/invitations/${id}/accept`, undefined, {
      token: ada.token,
    });
    expect([accepted.status, accepted.body.myRole]).toEqual([200, "owner"]);
    expect((await world.call("GET", `${A}/projects`, undefined, { token: ada.token })).status).toBe(200);
  });

  test("a withdrawn invitation is gone, and what is not there is not found before the body is looked at", async () => {
    const { A, token } = await owner(world);
    const { id } = await world.must<{ id: string }>(
      "POST",
      `${A}/members`,
      { email: "late@example.com", role: "reader" },
      token,
    );
    expect((await world.call("DELETE", `${A}/invitations/${id}`, undefined, { token })).status).toBe(204);
    const again = await world.call("POST", `${A}/invitations/${id}/resend`, { nonsense: 1 }, { token });
    expect(refusal(again)).toBe("404 not_found");
  });

  test("a changed password ends the other sessions with the next request", async () => {
    const { email, password, token } = await world.member("reader");
    const other = (await signIn(world, email, password)).body.token;
    expect((await world.call("GET", "/me", undefined, { token: other })).status).toBe(200);
    const { data } = await world.must<{ data: { id: string; current: boolean }[] }>(
      "GET",
      "/me/sessions",
      undefined,
      token,
    );
    expect(data.map(({ current }) => current)).toEqual([false, true]);
    const change = await world.call("PUT", "/me/password", { current: password, new: PASSWORD }, { token });
    expect(change.status).toBe(204);
    expect((await world.call("GET", "/me", undefined, { token: other })).status).toBe(401);
    expect((await world.call("GET", "/me", undefined, { token })).status).toBe(200);
  });

  test("a session ends from another one", async () => {
    const { email, password, token } = await world.member("reader");
    const other = (await signIn(world, email, password)).body.token;
    const { data } = await world.must<{ data: { id: string }[] }>("GET", "/me/sessions", undefined, other);
    expect(
      (await world.call("DELETE", `/me/sessions/${data[1]!.id}`, undefined, { token: other })).status,
    ).toBe(204);
    expect((await world.call("GET", "/me", undefined, { token })).status).toBe(401);
  });

  test("no password is reset, and the answer says why", async () => {
    const answer = await world.call("POST", "/password-resets", { email: "a@example.com" }, ANYBODY);
    expect(refusal(answer)).toBe("409 mail_not_configured");
  });
});

describe("with mail", () => {
  let world: World;
  let box: Mailbox;
  beforeAll(async () => {
    box = await startMailbox();
    world = await startWorld({ SMTP_URL: box.url, MAIL_FROM: "berth@example.com" });
  });
  afterAll(async () => {
    await world.stop();
    await box.stop();
  });

  const tokenTo = async (email: string, n = 1) => {
    const mail = await eventually(`mail ${n} to ${email}`, async () => box.for(email)[n - 1]);
    return secretLinkIn(mail).hash.slice(1);
  };

  test("somebody joins by a mailed link, forgets the password, and sets a new one by another", async () => {
    const email = "ada@example.com";
    const invited = await world.call("POST", `${world.A}/members`, { email, role: "editor" });
    expect(invited.body).not.toHaveProperty("link");
    const token = await tokenTo(email);
    const join = { token, password: PASSWORD, displayName: "Ada" };
    const joined = await world.call("POST", "/invitations/join", join, ANYBODY);
    expect([joined.status, joined.body]).toMatchObject([201, { account: { myRole: "editor" } }]);
    const session = (await signIn(world, email, PASSWORD)).body.token;
    expect((await world.call("GET", `${world.A}/projects`, undefined, { token: session })).status).toBe(200);

    for (const each of [email, "nobody@example.com"]) {
      const asked = await world.call("POST", "/password-resets", { email: each }, ANYBODY);
      expect([asked.status, asked.body]).toEqual([202, {}]);
    }
    const reset = { token: await tokenTo(email, 2), password: "a-longer-second-password" };
    expect((await world.call("POST", "/password-resets/complete", reset, ANYBODY)).status).toBe(204);
    await eventually("the session is refused", async () => {
      const answer = await world.call("GET", "/me", undefined, { token: session });
      return answer.status === 401;
    });
    expect((await signIn(world, email, reset.password)).status).toBe(201);
    expect(box.for("nobody@example.com")).toEqual([]);
    const output = await world.output();
    for (const secret of [token, reset.token, PASSWORD, reset.password]) expect(output).not.toContain(secret);
  });
});
