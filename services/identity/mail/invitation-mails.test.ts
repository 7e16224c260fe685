import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { queueMail } from "../../kit/mail/mail.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { type MailedIdentity, someEmail, startMailedIdentity } from "./testing.ts";

const EXPIRED = "422 validation_failed link_expired";

let mailed: MailedIdentity;
let it: MailedIdentity["it"];

beforeAll(async () => {
  mailed = await startMailedIdentity();
  it = mailed.it;
});
afterAll(() => mailed?.stop());

describe("an invitation", () => {
  test("is mailed with its link, which no answer carries then, not even an operator's", async () => {
    const email = someEmail();
    const { link } = await mailed.invite(email);
    expect(link).toBeUndefined();
    const mail = await mailed.mailTo(email);
    expect(mail.headers.get("subject")).toBe("Invitation to the account owner");
    expect(mail.text).toContain("owner@example.com invites you to the account owner");
    expect(mail.text).toContain("as editor");
    expect(mail.html).toContain(`<a href="${await mailed.linkTo(email)}">Accept the invitation</a>`);
    expect(await mailed.linkTo(email)).toMatch(
      /^https:\/\/berth\.example\.com\/invitation#berth_inv_[\w-]{43}$/,
    );
    expect((await mailed.joinBy(await mailed.linkTo(email))).user).toMatchObject({ email });
  });

  test("has the same text for a known e-mail as for an unknown one", async () => {
    const { email } = await mailed.person();
    const accountId = await it.account();
    const other = someEmail();
    await Promise.all([mailed.invite(email, accountId), mailed.invite(other, accountId)]);
    const texts = [await mailed.mailTo(email, 2), await mailed.mailTo(other)].map(({ text }) =>
      text.replace(/#berth_inv_[\w-]{43}/, "#"),
    );
    expect(texts[0]).toBe(texts[1]);
  });

  test("that is resent has a new link, and the old one no longer works", async () => {
    const email = someEmail();
    const { id } = await mailed.invite(email);
    const first = await mailed.linkTo(email);
    const { invitations } = await it.as(it.ownerToken, it.accountId);
    await invitations.resendInvitation({ accountId: it.accountId, invitationId: id });
    const second = await mailed.linkTo(email, 2);
    expect(second).not.toBe(first);
    expect(await refused(mailed.joinBy(first))).toBe(EXPIRED);
    await mailed.joinBy(second);
  });

  test("names the account by its handle only: a display name may be made to mislead", async () => {
    const { accounts } = await it.as(it.ownerToken);
    const displayName = "Win at https://evil.example.com";
    const { id } = await accounts.createAccount({
      handle: `h${randomBytes(5).toString("hex")}`,
      displayName,
    });
    const email = someEmail();
    await mailed.invite(email, id);
    const mail = await mailed.mailTo(email);
    expect(mail.raw).not.toContain("evil.example.com");
  });

  test("cannot flood a mailbox: 10 mails a day to one e-mail, whoever invites", async () => {
    const email = someEmail();
    for (let i = 0; i < 12; i++) {
      const { status } = await mailed.invite(email, await it.account());
      expect(status).toBe("invited");
    }
    await mailed.mailTo(email, 10);
    await mailed.settled();
    expect(mailed.box.for(email)).toHaveLength(10);
  });

  test("that was withdrawn before its mail went out is not mailed", async () => {
    const email = someEmail();
    const { id } = await mailed.invite(email);
    await mailed.mailTo(email);
    const { invitations } = await it.as(it.ownerToken, it.accountId);
    await invitations.withdrawInvitation({ accountId: it.accountId, invitationId: id });
    await queueMail(it.pool, { kind: "invitation", address: email, data: { invitationId: id } });
    await mailed.settled();
    expect(mailed.box.for(email)).toHaveLength(1);
  });
});
