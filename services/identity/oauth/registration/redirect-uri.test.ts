import { expect, test } from "vitest";
import { type RedirectRules, readRedirectUri } from "./redirect-uri.ts";

const open: RedirectRules = { customSchemes: true, hosts: undefined };

/** Returns the kind of a redirect URI, or what is wrong with it. */
function read(uri: unknown, rules = open): string {
  const found = readRedirectUri(uri, rules);
  return "kind" in found ? found.kind : found.problem;
}

const ORDINARY = "the host in its ordinary form";
const HOST = "a host such as app.example.com";
const LOOPBACK = "may use http only with localhost";
const CHARACTER = "RFC 3986 does not allow";
const USER = "must not have a user or password";
const SCHEME = "not an application's own";
const BEGIN = "has to begin with a scheme of 3 to 40";

test.each([
  ["http://127.0.0.1/callback", "loopback"],
  ["http://127.0.0.1:33418/", "loopback"],
  ["http://127.0.0.1:80/callback", "loopback"],
  ["http://[::1]:8080/callback", "loopback"],
  ["http://localhost/callback?from=cli", "loopback"],
  ["http://LocalHost:3000/", "loopback"],
  ["https://app.example.com/callback", "web"],
  ["https://app.example.com:8443/callback?a=b&c=%20d", "web"],
  ["https://app.example.com:443/callback", "web"],
  ["https://App.Example.COM", "web"],
  ["https://xn--mnchen-3ya.example/zur%C3%BCck", "web"],
  ["https://vscode.dev/redirect", "web"],
  ["cursor://anysphere.cursor-mcp/oauth/callback", "custom"],
  ["com.example.app:/oauth2redirect", "custom"],
  ["com.raycast:/oauth?package_name=Extension", "custom"],
  ["vscode-insiders://vscode.github-authentication/did-authenticate", "custom"],
])("%s may be registered", (uri, kind) => {
  expect(read(uri)).toBe(kind);
});

test.each([
  ["", "a text that is not empty"],
  [null, "a text that is not empty"],
  [["https://app.example.com/"], "a text that is not empty"],
  [`https://app.example.com/${"a".repeat(1024)}`, "more than 1024 characters"],
  ["callback", "not an absolute URI"],
  ["//app.example.com/callback", "not an absolute URI"],
  ["https://", "not an absolute URI"],
  ["http://localhost:99999/", "not an absolute URI"],
  ["https://app.example.com/#", "must not have a fragment"],
  ["https://app.example.com/callback#code", "must not have a fragment"],
  ["https://*.example.com/callback", "must not have a wildcard"],
  ["https://app.example.com/*", "must not have a wildcard"],
  ["https://app.example.com\\@evil.example/", CHARACTER],
  [" https://app.example.com/", CHARACTER],
  ["https://app.example.com/\n", CHARACTER],
  ["https://app.example.com/\u0000", CHARACTER],
  ["https://app.example.com/\u202egpj.exe", CHARACTER],
  ["https://app\u200b.example.com/", CHARACTER],
  ["https://аpp.example.com/", CHARACTER],
  ["https://app.example.com/\ud800", CHARACTER],
  ['https://app.example.com/"><script>', CHARACTER],
  ["https://user@app.example.com/", USER],
  ["https://user:password@app.example.com/", USER],
  ["https://@app.example.com/", USER],
  ["http://localhost@evil.example/", USER],
  ["http://localhost:80@evil.example/", USER],
  ["https:app.example.com/", ORDINARY],
  ["https:/app.example.com/", ORDINARY],
  ["https:///app.example.com/", ORDINARY],
  ["https://exa%6dple.com/", ORDINARY],
  ["https://app.example.com:0443/", ORDINARY],
  ["https://app.example.com:/", ORDINARY],
  ["http://127.1/", ORDINARY],
  ["http://0x7f000001/", ORDINARY],
  ["http://2130706433/", ORDINARY],
  ["http://[0:0:0:0:0:0:0:1]/", ORDINARY],
  ["http://app.example.com/callback", LOOPBACK],
  ["http://127.0.0.2/", LOOPBACK],
  ["http://localhost.evil.example/", LOOPBACK],
  ["http://localhost./", LOOPBACK],
  ["http://[::ffff:7f00:1]/", LOOPBACK],
  ["https://localhost/callback", HOST],
  ["https://app.localhost/callback", HOST],
  ["https://127.0.0.1/callback", HOST],
  ["https://198.51.100.7/callback", HOST],
  ["https://[2001:db8::1]/callback", HOST],
  ["https://intranet/callback", HOST],
  ["https://app.example.com./callback", HOST],
  ["javascript:alert(1)", SCHEME],
  ["JavaScript:alert(1)", BEGIN],
  ["data:text/html,x", SCHEME],
  ["file:///etc/passwd", SCHEME],
  ["blob:https://app.example.com/1", SCHEME],
  ["about:blank", SCHEME],
  ["vbscript:x", SCHEME],
  ["view-source:https://app.example.com/", SCHEME],
  ["chrome-extension://abc/callback", SCHEME],
  ["intent://scan/#Intent;end", "must not have a fragment"],
  ["intent://scan/", SCHEME],
  ["ms-msdt:/id", SCHEME],
  ["http+unix://%2Fvar%2Frun%2Fdocker.sock/containers", SCHEME],
  ["feed://app.example.com/", SCHEME],
  ["market://details?id=x", SCHEME],
  ["itms://apps.apple.com/x", SCHEME],
  ["itms-services://?action=download-manifest", SCHEME],
  ["view://x", SCHEME],
  ["googlechrome://app.example.com/", SCHEME],
  ["web+app://callback", SCHEME],
  ["microsoft-edge:https://app.example.com/", SCHEME],
  ["ws://localhost/", BEGIN],
  ["wss://app.example.com/", SCHEME],
  ["ftp://app.example.com/", SCHEME],
  ["urn:ietf:wg:oauth:2.0:oob", SCHEME],
  ["mailto:ada@example.com", SCHEME],
  ["ab://callback", BEGIN],
  [`${"a".repeat(41)}://callback`, BEGIN],
  ["cursor:", BEGIN],
  ["cursor://user@host/callback", USER],
  ["cursor://@host/callback", USER],
])("%j may not be registered", (uri, problem) => {
  expect(read(uri)).toContain(problem);
});

test("an installation can restrict redirect URIs to https and loopback, and to listed hosts", () => {
  const closed: RedirectRules = { customSchemes: false, hosts: ["app.example.com", "*.example.org"] };
  expect(read("cursor://callback/", closed)).toContain("has to begin with https:// or http://");
  expect(read("https://app.example.com/callback", closed)).toBe("web");
  expect(read("https://one.two.example.org/callback", closed)).toBe("web");
  for (const host of ["other.example.com", "example.org", "badexample.org", "app.example.com.evil.example"])
    expect(read(`https://${host}/callback`, closed)).toContain("does not allow");
  expect(read("http://localhost:1234/callback", closed)).toBe("loopback");
  const loopbackOnly: RedirectRules = { customSchemes: false, hosts: [] };
  expect(read("https://app.example.com/callback", loopbackOnly)).toContain("does not allow");
});
