import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { SessionService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { testNats } from "../../../test/support/servers/nats.ts";
import { hashToken, makeToken } from "../../kit/crypto/bearer-token.ts";
import { createLog } from "../../kit/log.ts";
import { type ConfigError, readConfig } from "../../kit/process/config.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, testDatabase } from "../../kit/testing/testing.ts";
import { fields, firstOwnerOf } from "../config.ts";
import { start } from "../main.ts";
import { testEnv } from "../testing.ts";
import { handlesFor } from "./bootstrap.ts";

const EMAIL = "Ada.Lovelace@example.com";
const PASSWORD = "a-long-first-password";
const log = createLog("identity", "silent");
let nats: Awaited<ReturnType<typeof testNats>>;
let database: Awaited<ReturnType<typeof testDatabase>>;
let stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  nats = await testNats();
});
beforeEach(async () => {
  database = await testDatabase(["identity"]);
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
    stops = [];
    await database.drop();
  };
});
afterAll(() => nats.remove());

type Owner = { email?: string; password?: string; token?: string };

const configOf = ({ email, password, token }: Owner) =>
  readConfig(
    testEnv(database.url("identity"), nats.url, {
      ...(email && { BOOTSTRAP_OWNER_EMAIL: email }),
      ...(password && { BOOTSTRAP_OWNER_PASSWORD: password }),
      ...(token && { BOOTSTRAP_OWNER_TOKEN: token }),
    }),
    fields,
  );

/** Starts a replica with this first owner, and gives clients of it. */
async function replica(owner: Owner, now?: () => number) {
  const running = await start(configOf(owner), log, now);
  stops.push(running.stop);
  const gateway = clientAs(InternalService, running.port, { kind: "service", id: "gateway" });
  const lookup = (token: string) => gateway.lookupCaller({ tokenHash: hashToken(token) });
  return {
    lookup,
    signIn: (password: string) =>
      clientAs(SessionService, running.port, { kind: "anonymous", id: "" }).signIn({
        email: EMAIL,
        password,
      }),
    me: async (token: string) => {
      const { userId, tokenId } = await lookup(token);
      return clientAs(SessionService, running.port, { id: userId, tokenId });
    },
  };
}

const WRONG = "401 unauthenticated";

test("the first start makes the owner, their account and their token", async () => {
  const token = makeToken("pat");
  const { me, signIn } = await replica({ email: EMAIL, password: PASSWORD, token });
  const owner = await (await me(token)).getMe({});
  expect(owner).toMatchObject({ email: EMAIL.toLowerCase(), displayName: "ada.lovelace" });
  expect(owner.accounts).toMatchObject([{ handle: "ada-lovelace", myRole: "owner" }]);
  await signIn(PASSWORD);
});

test("a password alone makes an owner who can sign in", async () => {
  const { me, signIn } = await replica({ email: EMAIL, password: PASSWORD });
  const { token } = await signIn(PASSWORD);
  expect((await (await me(token)).getMe({})).accounts).toMatchObject([{ myRole: "owner" }]);
});

test("a token alone makes an owner who cannot sign in by password", async () => {
  const token = makeToken("pat");
  const { me, signIn } = await replica({ email: EMAIL, token });
  expect((await (await me(token)).getMe({})).accounts).toHaveLength(1);
  expect(await refused(signIn(PASSWORD))).toBe(WRONG);
});

test("without a configured owner nothing is made", async () => {
  const token = makeToken("pat");
  const { lookup } = await replica({});
  expect(await refused(lookup(token))).toBe(WRONG);
});

test("many replicas that start at once make one owner, one account and one token", async () => {
  const token = makeToken("pat");
  const replicas = await Promise.all(
    Array.from({ length: 4 }, () => replica({ email: EMAIL, password: PASSWORD, token })),
  );
  const seen = await Promise.all(
    replicas.map(async ({ me }) => {
      const sessions = await me(token);
      const { id, accounts } = await sessions.getMe({});
      const { data } = await sessions.listTokens({});
      return { id, accounts: accounts.map((account) => account.id), tokens: data.map((one) => one.id) };
    }),
  );
  expect(seen[0]!.accounts).toHaveLength(1);
  expect(seen[0]!.tokens).toHaveLength(1);
  for (const each of seen) expect(each).toEqual(seen[0]);
});

test("a later start changes neither password, account nor role, and the token goes on", async () => {
  const token = makeToken("pat");
  const first = await replica({ email: EMAIL, password: PASSWORD, token });
  const before = await (await first.me(token)).getMe({});
  const second = await replica({ email: EMAIL.toUpperCase(), password: "another-password", token });
  expect(await (await second.me(token)).getMe({})).toEqual(before);
  await second.signIn(PASSWORD);
  expect(await refused(second.signIn("another-password"))).toBe(WRONG);
});

test("a changed token is added and its predecessor revoked", async () => {
  const [one, two] = [makeToken("pat"), makeToken("pat")];
  const first = await replica({ email: EMAIL, token: one });
  const { id } = await (await first.me(one)).getMe({});
  const second = await replica({ email: EMAIL, token: two });
  expect((await (await second.me(two)).getMe({})).id).toBe(id);
  expect(await refused(first.lookup(one))).toBe(WRONG);
});

test("an old replica that restarts during a roll-out does not restore the old token", async () => {
  const [one, two] = [makeToken("pat"), makeToken("pat")];
  await replica({ email: EMAIL, token: one });
  await replica({ email: EMAIL, token: two });
  const late = await replica({ email: EMAIL, token: one });
  expect(await refused(late.lookup(one))).toBe(WRONG);
  await late.lookup(two);
});

test("other tokens of the owner survive a changed bootstrap token", async () => {
  const [one, two] = [makeToken("pat"), makeToken("pat")];
  const first = await replica({ email: EMAIL, token: one });
  const made = await (await first.me(one)).createToken({ name: "ci" });
  const second = await replica({ email: EMAIL, token: two });
  await second.lookup(made.token);
});

test("a bootstrap token that its owner revoked stays revoked, and the process starts", async () => {
  const token = makeToken("pat");
  const first = await replica({ email: EMAIL, token });
  const sessions = await first.me(token);
  await sessions.revokeToken({ tokenId: (await first.lookup(token)).tokenId });
  const second = await replica({ email: EMAIL, token });
  expect(await refused(second.lookup(token))).toBe(WRONG);
});

test("each start extends the bootstrap token by a year, even an expired one", async () => {
  const token = makeToken("pat");
  const day = 24 * 3600_000;
  let ms = Date.now();
  const first = await replica({ email: EMAIL, token }, () => ms);
  ms += 365 * day;
  expect(await refused(first.lookup(token))).toBe(WRONG);
  await replica({ email: EMAIL, token }, () => ms);
  ms += 364 * day;
  await first.lookup(token);
});

test("another e-mail later makes no second owner", async () => {
  const [one, two] = [makeToken("pat"), makeToken("pat")];
  await replica({ email: EMAIL, token: one });
  const second = await replica({ email: "eve@example.com", token: two });
  expect(await refused(second.lookup(two))).toBe(WRONG);
  await second.lookup(one);
});

test("an incomplete configuration is refused by name and never by value", () => {
  const half = (owner: Owner) => {
    try {
      firstOwnerOf(configOf(owner));
      return "usable";
    } catch (error) {
      return (error as ConfigError).message;
    }
  };
  const token = makeToken("pat");
  expect(half({ email: EMAIL })).toContain("BOOTSTRAP_OWNER_EMAIL needs");
  for (const owner of [{ token }, { password: PASSWORD }]) {
    expect(half(owner)).toContain("BOOTSTRAP_OWNER_EMAIL needs");
    expect(half(owner)).not.toContain(Object.values(owner)[0]);
  }
  const wrong = { email: "nobody", password: "short-one", token: `${token.slice(0, -1)}!` };
  const message = half(wrong);
  for (const name of ["EMAIL", "PASSWORD", "TOKEN"])
    expect(message).toContain(`BOOTSTRAP_OWNER_${name} must`);
  for (const value of Object.values(wrong)) expect(message).not.toContain(value);
  expect(half({ email: EMAIL, token: makeToken("ses") })).toContain("BOOTSTRAP_OWNER_TOKEN must");
  expect(half({ email: EMAIL, password: PASSWORD })).toBe("usable");
});

test("every e-mail yields valid handles, all different", () => {
  const emails = fc
    .tuple(fc.string({ minLength: 1 }), fc.constant("@example.com"))
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.oneof(emails, fc.emailAddress()), (email) => {
      const handles = handlesFor(email).take(150).toArray();
      for (const handle of handles) expect(handle).toMatch(/^[a-z0-9][a-z0-9-]{1,37}[a-z0-9]$/);
      expect(new Set(handles).size).toBe(handles.length);
    }),
  );
});
