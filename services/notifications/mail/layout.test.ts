import { expect, test } from "vitest";
import { toContent } from "../../kit/mail/layout.ts";
import { kindKeys } from "../catalog/kinds.ts";
import { linkOf } from "./links.ts";

const origins = { origin: "https://berth.example.com", baseUrl: "https://berth.example.com/v1" };
const hostile = `</p><script>alert(1)</script><img src=x onerror=alert(2)>"'&<style>*{}</style>\u202Egnp.exe\u0000`;

test("what people chose is text in the HTML, wherever it stands, and nothing is loaded from elsewhere", () => {
  const { html, text } = toContent(
    {
      subject: hostile,
      sections: [
        { heading: hostile, items: [{ title: hostile, text: `${hostile}\n${hostile}` }, { text: hostile }] },
      ],
      link: { label: hostile, url: `https://app.example.com/"><script>alert(3)</script>` },
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
  expect(linkOf({ ...about, kind: "deploy.ready" }, origins)).toEqual({
    label: "Open web",
    url: "https://web.apps.example.com",
  });
  const deployment = "/accounts/acc_1/projects/prj_1/environments/env_1/services/web/deployments/3";
  expect(linkOf({ ...about, kind: "deploy.failed" }, origins)?.url).toBe(origins.baseUrl + deployment);
  expect(linkOf({ ...about, kind: "security.sign_in_new_device" }, origins)?.url).toBe(
    `${origins.origin}/profile/sessions`,
  );
  expect(linkOf({ ...about, kind: "security.oauth_granted" }, origins)?.url).toBe(
    `${origins.origin}/connected-applications`,
  );
  for (const kind of kindKeys.filter((one) => !/^(social|member\.removed)/.test(one)))
    expect([kind, linkOf({ ...about, kind }, origins)?.url]).toEqual([
      kind,
      expect.stringMatching(/^https:/),
    ]);
  expect(linkOf({ kind: "deploy.failed", accountId: "acc_1", metadata: {} }, origins)).toBeUndefined();
});
