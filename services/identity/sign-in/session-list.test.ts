import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";

const WRONG = "401 unauthenticated";
const MINUTE = 60_000;
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const signIn = (email: string, password: string, ip?: string) => it.anonymous(ip).signIn({ email, password });

describe("the sessions of a user", () => {
  test("are listed newest first, page by page, with the current one marked, until they end", async () => {
    const { email, password, token } = await it.member("reader");
    await signIn(email, password, "198.51.100.3");
    await signIn(email, password, "198.51.100.4");
    const { sessions, caller } = await it.as(token);
    const { data } = await sessions.listSessions({});
    expect(data.map(({ ip, current }) => [ip, current])).toEqual([
      ["198.51.100.4", false],
      ["198.51.100.3", false],
      ["203.0.113.7", true],
    ]);
    expect(data[2]!.id).toBe(caller.tokenId);
    const { data: first, page } = await sessions.listSessions({ limit: 2 });
    const { data: rest } = await sessions.listSessions({ limit: 2, cursor: page!.nextCursor });
    expect([...first, ...rest].map(({ id }) => id)).toEqual(data.map(({ id }) => id));
    it.clock.ms += 11 * 60 * MINUTE;
    await it.lookup(token);
    it.clock.ms += 2 * 60 * MINUTE;
    expect((await sessions.listSessions({})).data.map(({ id }) => id)).toEqual([caller.tokenId]);
  });

  test("end one by one, by their user alone and by no limited token", async () => {
    const { email, password, token } = await it.member("reader");
    const other = await signIn(email, password);
    const id = (await it.lookup(other.token)).tokenId;
    const { sessions } = await it.as(token);
    const stranger = (await it.as((await it.member("reader")).token)).sessions;
    expect(await refused(stranger.endSession({ sessionId: id }))).toBe("404 not_found");
    const limited = await sessions.createToken({ name: "ci", roleCap: "reader" });
    const capped = (await it.as(limited.token)).sessions;
    expect(await refused(capped.endSession({ sessionId: id }))).toBe("403 forbidden");
    expect(await refused(sessions.endSession({ sessionId: limited.id }))).toBe("404 not_found");
    await sessions.endSession({ sessionId: id });
    expect(await refused(it.lookup(other.token))).toBe(WRONG);
    expect(await refused(sessions.endSession({ sessionId: id }))).toBe("404 not_found");
    await it.lookup(token);
  });
});
