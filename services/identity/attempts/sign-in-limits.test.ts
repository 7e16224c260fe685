import { afterAll, beforeAll, expect, test } from "vitest";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { sweep } from "../sweep.ts";
import { OWNER_PASSWORD, startIdentity, type TestIdentity } from "../testing.ts";
import { windowKey } from "./keys.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const WRONG = "401 unauthenticated";
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const signIn = (email: string, password: string, ip?: string) => it.anonymous(ip).signIn({ email, password });

test("an eleventh try after 10 failures is refused with the seconds to wait, also with the right password", async () => {
  const { email, password } = await it.member("reader");
  const started = it.clock.ms;
  for (let i = 0; i < 10; i++) {
    expect(await refused(signIn(email, "wrong-password"))).toBe(WRONG);
    it.clock.ms += 1000;
  }
  const { status, code, context } = await refusal(signIn(email, password));
  expect([status, code]).toEqual([429, "rate_limited"]);
  expect(context).toEqual({ retryAfter: 15 * 60 - 10 });
  it.clock.ms = started + 15 * MINUTE - 1;
  expect(await refusal(signIn(email, password))).toMatchObject({ status: 429, context: { retryAfter: 1 } });
  it.clock.ms = started + 15 * MINUTE;
  await signIn(email, password);
});

test("failures count for an e-mail and an address together, whatever the case", async () => {
  const { email, password } = await it.member("reader");
  for (let i = 0; i < 10; i++)
    await refused(signIn(i % 2 ? email.toUpperCase() : email, "wrong-password", "198.51.100.1"));
  expect(await refused(signIn(email, password, "198.51.100.1"))).toBe("429 rate_limited");
  await signIn(email, password, "198.51.100.2");
  await signIn("owner@example.com", OWNER_PASSWORD, "198.51.100.1");
});

/** The failures of an e-mail from all addresses together, as if so many had been made just now. */
async function failedEverywhere(email: string, times: number) {
  const now = new Date(it.clock.ms);
  const end = new Date(it.clock.ms + 15 * MINUTE);
  const text = `insert into sign_in_attempts (key, failed_at, expires_at)
    values ($1, array_fill($2::timestamptz, array[$3::int]), $4)
    on conflict (key) do update set failed_at = excluded.failed_at, expires_at = excluded.expires_at`;
  await it.pool.query(text, [windowKey("sign-in", email), now, times, end]);
}

test("50 failures of an e-mail from all addresses together block it for addresses that never signed in", async () => {
  const { email, password } = await it.member("reader");
  for (let n = 0; n < 50; n++)
    expect(await refused(signIn(email, "wrong-password", `198.51.100.${n}`))).toBe(WRONG);
  const { status, context } = await refusal(signIn(email, password, "203.0.113.200"));
  expect([status, context]).toEqual([429, { retryAfter: 15 * 60 }]);
  await signIn("owner@example.com", OWNER_PASSWORD, "203.0.113.200");
  it.clock.ms += 15 * MINUTE;
  await signIn(email, password, "203.0.113.200");
});

test("a known address can sign in while others guess, and counts only its own failures", async () => {
  const { email, password, token } = await it.member("reader");
  await signIn(email, password, "203.0.113.50");
  await failedEverywhere(email, 50);
  await signIn(email, password, "203.0.113.50");
  await it.lookup(token);
  for (let i = 0; i < 10; i++)
    expect(await refused(signIn(email, "wrong-password", "203.0.113.50"))).toBe(WRONG);
  expect(await refused(signIn(email, password, "203.0.113.50"))).toBe("429 rate_limited");
});

test("an address without a sign-in for 30 days is no longer known", async () => {
  const { email, password } = await it.member("reader");
  await signIn(email, password, "203.0.113.51");
  it.clock.ms += 30 * DAY;
  await sweep(it.pool, new Date(it.clock.ms));
  await failedEverywhere(email, 50);
  expect(await refused(signIn(email, password, "203.0.113.51"))).toBe("429 rate_limited");
});

test("neither a success nor an attempt that was refused unchecked counts against an e-mail", async () => {
  const { email, password } = await it.member("reader");
  await failedEverywhere(email, 39);
  for (let i = 0; i < 20; i++) await refused(signIn(email, "wrong-password", "198.51.100.7"));
  for (let i = 0; i < 3; i++) await signIn(email, password, `203.0.113.${100 + i}`);
  expect(await refused(signIn(email, "wrong-password", "203.0.113.110"))).toBe(WRONG);
  expect(await refused(signIn(email, password, "203.0.113.111"))).toBe("429 rate_limited");
});

test("a success clears the failures before it", async () => {
  const { email, password } = await it.member("reader");
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 9; i++) expect(await refused(signIn(email, "wrong-password"))).toBe(WRONG);
    await signIn(email, password);
  }
});

test("guesses sent at once get at most 10 checks of the password", async () => {
  const { email } = await it.member("reader");
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) => refused(signIn(email, `guess-number-${i}`))),
  );
  expect(answers.filter((answer) => answer === WRONG)).toHaveLength(10);
  expect(answers.filter((answer) => answer === "429 rate_limited")).toHaveLength(20);
});

test("an unknown e-mail is limited like a known one", async () => {
  for (let i = 0; i < 10; i++)
    expect(await refused(signIn("ghost@example.com", "wrong-password"))).toBe(WRONG);
  expect(await refused(signIn("ghost@example.com", "wrong-password"))).toBe("429 rate_limited");
});
