import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { linkSettings } from "../../kit/mail/mail.ts";
import { readConfig } from "../../kit/process/config.ts";
import { fields } from "../config.ts";
import { type MailedIdentity, someEmail, startMailedIdentity } from "../mail/testing.ts";
import { testEnv, tokenIn } from "../testing.ts";
import { createLinks } from "./links.ts";

let mailed: MailedIdentity;
let it: MailedIdentity["it"];

beforeAll(async () => {
  mailed = await startMailedIdentity();
  it = mailed.it;
});
afterAll(() => mailed?.stop());

test("the token of a link is only in the mail, in no table", async () => {
  const { email } = await mailed.person();
  await mailed.invite(someEmail());
  await mailed.askReset(email);
  const tokens = [tokenIn(await mailed.linkTo(email)), tokenIn(await mailed.linkTo(email, 2))];
  const { rows } = await it.pool.query(
    "select table_name as name from information_schema.tables where table_schema = current_schema()",
  );
  expect(rows.length).toBeGreaterThan(10);
  for (const { name } of rows) {
    const all = await it.pool.query(`select t::text as line from ${name} t`);
    const text = all.rows.map((row) => row.line).join("\n");
    for (const token of tokens) expect(text.includes(token.slice("berth_inv_".length))).toBe(false);
  }
});

test("a link is found with the key that made it, also after a newer key signs", () => {
  const [old, next] = [randomBytes(32), randomBytes(32)];
  const { url, hash } = createLinks([old], "https://x").make("inv", "seed");
  expect(createLinks([next, old], "https://x").find("inv", "seed", hash)).toBe(url);
  expect(createLinks([next], "https://x").find("inv", "seed", hash)).toBeUndefined();
  expect(createLinks([old], "https://x").find("rst", "seed", hash)).toBeUndefined();
});

test("mail needs the origin of its links", () => {
  const mail = { SMTP_URL: mailed.box.url, MAIL_FROM: "berth@example.com" };
  const settings = (more: object) =>
    linkSettings(readConfig(testEnv("postgres://x/y", "nats://x", { ...mail, ...more }), fields));
  expect(() => settings({})).toThrow("SMTP_URL needs PUBLIC_ORIGIN");
  expect(settings({ PUBLIC_ORIGIN: "https://x.example.com/" }).origin).toBe("https://x.example.com");
});
