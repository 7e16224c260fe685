import { expect, test } from "vitest";
import { toContent } from "../../kit/mail/layout.ts";
import { kindKeys } from "../kinds/kinds.ts";
import { linksOf } from "./links.ts";

const origins = { origin: "https://berth.example.com", baseUrl: "https://berth.example.com/v1" };
const hostile = `</p><script>alert(1)</script><img src=x onerror=alert(2)>"'&<style>*{}</style>\u202Egnp.exe\u0000`;

test("what people chose is text in the HTML, wherever it stands, and nothing is loaded from elsewhere", () => {
  const { html, text } = toContent(
    {
      subject: hostile,
      sections: [
        { heading: hostile, items: [{ title: hostile, text: `${hostile}\n${hostile}` }, { text: hostile }] },
      ],
      links: [{ label: hostile, url: `https://app.example.com/"><script>alert(3)</script>` }],
      footer: [hostile, { label: hostile, url: "javascript:alert(4)" }],
    },
    origins.origin,
  );
  expect(html).not.toMatch(/<script|<img|<link|<iframe|onerror=alert\(2\)>"|url\(|@import|\bsrc="/);
  expect(html.match(/<style>/g)).toHaveLength(1);
  expect(html).not.toMatch(/\p{Cf}/u);
  expect([...html.matchAll(/href="([^"]*)"/g)].map(([, url]) => url)).toEqual([
    "https://app.example.com/&quot;&gt;&lt;script&gt;alert(3)&lt;/script&gt;",
  ]);
  expect(html).toContain("&lt;script&gt;alert(1)");
  expect(html).toContain("prefers-color-scheme: dark");
  expect(text).toContain("\n-- \nBerth at https://berth.example.com\n");
});

test("every kind leads to something on this platform, and one that is live to its app", () => {
  const place = { projectId: "prj_1", environmentId: "env_1", service: "web", version: "3" };
  const about = { accountId: "acc_1", metadata: { ...place, url: "https://web.apps.example.com" } };
  expect(linksOf({ ...about, kind: "deploy.ready" }, origins)[0]).toEqual({
    label: "Open web",
    url: "https://web.apps.example.com",
  });
  const deployment = "/accounts/acc_1/projects/prj_1/environments/env_1/services/web/deployments/3";
  expect(linksOf({ ...about, kind: "deploy.failed" }, origins)[0]?.url).toBe(origins.baseUrl + deployment);
  expect(
    linksOf({ ...about, kind: "deploy.failed" }, { ...origins, console: `${origins.origin}/console` })[0],
  ).toEqual({ label: "The deployment", url: `${origins.origin}/console${deployment}` });
  // Where there is a console, its screens come before resources of the API.
  const withConsole = { ...origins, console: `${origins.origin}/console` };
  for (const [kind, path] of [
    ["security.token_created", "/me/tokens"],
    ["member.joined", "/accounts/acc_1/members"],
    ["member.role_changed", "/accounts/acc_1"],
    ["security.variable_revealed", "/accounts/acc_1/audit-events"],
    ["security.sign_in_new_device", "/me/sessions"],
    ["security.oauth_granted", "/me/mcp-grants"],
    ["member.invited", "/me"],
    ["deletion.completed", "/accounts/acc_1"],
  ] as const)
    expect([kind, linksOf({ ...about, kind }, withConsole)[0]?.url]).toEqual([
      kind,
      `${withConsole.console}${path}`,
    ]);
  expect(linksOf({ ...about, kind: "security.sign_in_new_device" }, origins)[0]?.url).toBe(
    `${origins.origin}/profile/sessions`,
  );
  expect(linksOf({ ...about, kind: "security.oauth_granted" }, origins)[0]?.url).toBe(
    `${origins.origin}/connected-applications`,
  );
  for (const kind of kindKeys.filter((one) => !/^(social|member\.removed)/.test(one)))
    expect([kind, linksOf({ ...about, kind }, origins)[0]?.url]).toEqual([
      kind,
      expect.stringMatching(/^https:/),
    ]);
  expect(linksOf({ kind: "deploy.failed", accountId: "acc_1", metadata: {} }, origins)).toEqual([]);
});

test("links of billing lead to pages: the invoice, the payment method, and the billing page", () => {
  const metadata = { account: "ada", invoiceId: "in_1", number: "ADA-0003" };
  const page = `${origins.origin}/billing/acc_1`;
  const links = (kind: (typeof kindKeys)[number], about: Record<string, string> = metadata) =>
    linksOf({ kind, accountId: "acc_1", metadata: about }, origins).map(
      ({ label, url }) => `${label}: ${url}`,
    );
  expect(links("billing.invoice_paid")).toEqual([
    `Invoice ADA-0003: as PDF: ${page}/invoices/in_1/pdf`,
    `Billing of ada: ${page}`,
  ]);
  expect(links("billing.payment_failed")).toEqual([
    `Invoice ADA-0003: pay it now: ${page}/invoices/in_1/pay`,
    `Change the payment method: ${page}/portal`,
    `Billing of ada: ${page}`,
  ]);
  for (const kind of kindKeys.filter((one) => one.startsWith("billing.")))
    for (const link of links(kind, {})) expect(link).toContain(`: ${page}`);
});

test("where there is a console, billing leads to its screens, and nothing leads to the API", () => {
  const withConsole = { ...origins, console: `${origins.origin}/console` };
  const place = { projectId: "prj_1", environmentId: "env_1", service: "web", webhookId: "whk_1" };
  const links = (kind: (typeof kindKeys)[number]) =>
    linksOf({ kind, accountId: "acc_1", metadata: { ...place, invoiceId: "in_1" } }, withConsole).map(
      ({ url }) => url,
    );
  const account = `${withConsole.console}/accounts/acc_1`;
  expect(links("billing.invoice_paid")).toEqual([
    `${origins.origin}/billing/acc_1/invoices/in_1/pdf`,
    `${account}/subscription`,
  ]);
  expect(links("billing.spend_limit")).toEqual([`${account}/compute-usage`]);
  expect(links("deploy.config_dangling")).toEqual([
    `${account}/projects/prj_1/environments/env_1/services/web/variables`,
  ]);
  expect(links("webhook.disabled")).toEqual([`${account}/webhooks/whk_1`]);
  for (const kind of kindKeys) for (const url of links(kind)) expect(url).not.toContain(origins.baseUrl);
});
