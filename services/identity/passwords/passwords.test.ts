import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { startIdentity, type TestIdentity } from "../testing.ts";

const NEW = "a-longer-second-password";
const WRONG = "401 unauthenticated";
const MINUTE = 60_000;
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

const signIn = (email: string, password: string, ip?: string) => it.anonymous(ip).signIn({ email, password });

describe("changing the password", () => {
  test("ends all other sessions at once, and neither this one nor personal tokens", async () => {
    const { email, password, token } = await it.member("reader");
    const others = [await signIn(email, password), await signIn(email, password)];
    const { passwords, sessions } = await it.as(token);
    const pat = await sessions.createToken({ name: "ci" });
    await passwords.changePassword({ current: password, new: NEW });
    for (const other of others) expect(await refused(it.lookup(other.token))).toBe(WRONG);
    await it.lookup(token);
    await it.lookup(pat.token);
    expect(await refused(signIn(email, password))).toBe(WRONG);
    await signIn(email, NEW);
  });

  test("needs the current one, a new one of 12 characters, and a token without limits", async () => {
    const { email, password, token } = await it.member("reader");
    const { passwords, sessions } = await it.as(token);
    const change = (current: string, next: string) =>
      refused(passwords.changePassword({ current, new: next }));
    expect(await change("not-the-password", NEW)).toBe("422 validation_failed wrong_password");
    expect(await change(password, "eleven-char")).toBe("422 validation_failed weak_password");
    expect(await change(password, "")).toBe("422 validation_failed required");
    const limited = await sessions.createToken({ name: "ci", roleCap: "reader" });
    const capped = (await it.as(limited.token)).passwords;
    expect(await refused(capped.changePassword({ current: password, new: NEW }))).toBe("403 forbidden");
    await signIn(email, password);
  });

  test("is blocked after 10 wrong guesses in 15 minutes, from any address", async () => {
    const { password, token } = await it.member("reader");
    for (let i = 0; i < 10; i++) {
      const { passwords } = await it.as(token, undefined, `198.51.100.${i}`);
      await refused(passwords.changePassword({ current: "not-the-password", new: NEW }));
    }
    const { passwords } = await it.as(token);
    expect(await refused(passwords.changePassword({ current: password, new: NEW }))).toBe("429 rate_limited");
    it.clock.ms += 15 * MINUTE;
    await passwords.changePassword({ current: password, new: NEW });
  });

  test("of two concurrent changes, one succeeds", async () => {
    const { password, token, email } = await it.member("reader");
    const { passwords } = await it.as(token);
    const candidates = ["the-first-new-password", "the-other-new-password"];
    const answers = await Promise.all(
      candidates.map((next) =>
        passwords.changePassword({ current: password, new: next }).then(
          () => "changed",
          (error) => refused(Promise.reject(error)),
        ),
      ),
    );
    const winner = candidates[answers.indexOf("changed")]!;
    expect(answers.filter((answer) => answer === "changed")).toHaveLength(1);
    await signIn(email, winner);
  });
});

test("an installation without mail says that it cannot mail a link, for every e-mail", async () => {
  const { email } = await it.member("reader");
  for (const each of [email, "nobody@example.com"])
    expect(await refused(it.visitor().passwords.requestPasswordReset({ email: each }))).toBe(
      "409 mail_not_configured",
    );
});
