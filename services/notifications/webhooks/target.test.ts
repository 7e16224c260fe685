import type { ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { allowedAddresses, requireUrl } from "./target.ts";

const outcomeOf = (url: string, allowPrivate: boolean) => {
  try {
    return requireUrl(url, allowPrivate);
  } catch (error) {
    return (error as ConnectError).rawMessage;
  }
};

describe("by default", () => {
  test.each([
    ["https://hooks.example.com/berth?team=1", "https://hooks.example.com/berth?team=1"],
    ["https://EXAMPLE.com", "https://example.com/"],
    ["https://93.184.215.14/", "https://93.184.215.14/"],
    ["https://[2606:2800:21f::1]:8443/", "https://[2606:2800:21f::1]:8443/"],
  ])("%s is taken", (url, stored) => expect(outcomeOf(url, false)).toBe(stored));

  test.each([
    ["hooks", "is not a URL"],
    ["http://example.com/", "must begin with https://"],
    ["ftp://example.com/", "must begin with https://"],
    ["file:///etc/passwd", "must begin with https://"],
    ["https://user@example.com/", "user name or a password"],
    ["https://:pass@example.com/", "user name or a password"],
    ["https://example.com/#part", "fragment"],
    ...[
      ...["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "localhost", "a.localhost"],
      ...["localhost.", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"],
      ...["169.254.169.254", "192.0.0.192", "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255"],
      ...["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::ffff:8.8.8.8]", "[::7f00:1]"],
      ...["[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[ff02::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"],
      ...["[2001::1]", "[2001:db8::1]"],
    ].map((host) => [`https://${host}/`, "may not reach"]),
  ])("%s is refused", (url, message) => expect(outcomeOf(url!, false)).toContain(message));
});

describe("where the operator allows private networks", () => {
  test.each([
    ...["http://127.0.0.1:3000/", "http://localhost:3000/", "https://10.1.2.3/", "http://192.168.1.1/"],
    ...["http://[::1]/", "http://[fd00::1]/", "https://example.com/", "http://receiver.apps.svc/"],
  ])("%s is taken", (url) => expect(outcomeOf(url, true)).toBe(url));

  test.each([
    ["http://169.254.169.254/latest/", "may not reach"],
    ["https://169.254.169.254/", "may not reach"],
    ["http://[fd00:ec2::254]/", "may not reach"],
    ["http://100.100.100.200/", "may not reach"],
    ["http://[fd20:ce::254]/", "may not reach"],
    ["http://[fd00:c1::a9fe:a9fe]/", "may not reach"],
    ["http://[fd00:42::42]/", "may not reach"],
    ["http://[fd00:a9fe:a9fe::1]/", "may not reach"],
    ["http://[fd00:100::100:200]/", "may not reach"],
    ["http://0.0.0.0/", "may not reach"],
    ["http://[fe80::1]/", "may not reach"],
    ["http://93.184.215.14/", "may not reach"],
    ["ftp://10.1.2.3/", "must begin with https://, or http://"],
  ])("%s is refused", (url, message) => expect(outcomeOf(url, true)).toContain(message));

  test("a name without TLS may lead to their addresses alone", () => {
    const isAllowed = allowedAddresses(new URL("http://example.com"), true);
    expect(["10.0.0.1", "93.184.215.14", "169.254.169.254"].map(isAllowed)).toEqual([true, false, false]);
  });
});
