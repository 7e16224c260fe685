import { expect, test } from "vitest";
import { targetOf } from "../../../clients/console/screens/notifications/target.ts";
import { type KindKey, kindKeys } from "../../../services/notifications/kinds/kinds.ts";
import { linksOf } from "../../../services/notifications/mail/links.ts";

const ORIGIN = "https://berth.example.com";
const origins = { origin: ORIGIN, baseUrl: `${ORIGIN}/v1`, console: `${ORIGIN}/console` };
const metadata = {
  projectId: "prj_1",
  environmentId: "env_1",
  service: "web",
  version: "3",
  webhookId: "whk_1",
  runId: "run_1",
};

/** Kinds about an invoice: a mail has links to it, and the console a screen with all of them. */
const OF_INVOICES = [
  "billing.invoice_paid",
  "billing.payment_failed",
  "billing.payment_action_required",
  "billing.payment_disputed",
];

function addressOf(kind: KindKey): string | undefined {
  const screen = targetOf({ kind, accountId: "acc_1", metadata });
  return screen && origins.console + screen;
}

test("each notification leads to where its mail leads; one about invoices to their list", () => {
  for (const kind of kindKeys) {
    const mailed = linksOf({ kind, accountId: "acc_1", metadata }, origins).at(-1)?.url;
    const wanted = OF_INVOICES.includes(kind) ? `${origins.console}/accounts/acc_1/invoices` : mailed;
    expect([kind, addressOf(kind)]).toEqual([kind, wanted]);
  }
});

test("what names no service leads to the account, and what names no account to nothing", () => {
  const about = { accountId: "acc_1", metadata: {} };
  expect(targetOf({ ...about, kind: "deploy.failed" })).toBe("/accounts/acc_1");
  expect(targetOf({ kind: "deploy.failed", accountId: "", metadata: {} })).toBeUndefined();
  expect(targetOf({ ...about, kind: "member.removed" })).toBeUndefined();
  expect(targetOf({ ...about, kind: "a.newer_kind" })).toBeUndefined();
  const hostile = { ...metadata, service: "../x?y#z" };
  expect(targetOf({ kind: "domain.active", accountId: "acc_1", metadata: hostile })).toBe(
    "/accounts/acc_1/projects/prj_1/environments/env_1/services/..%2Fx%3Fy%23z",
  );
});
