import { expect, test } from "vitest";
import { refused } from "../../../kit/testing/refusal.ts";
import { type RegistryRules, requireRegistryHost } from "./host.ts";

const rules: RegistryRules = {
  accounts: true,
  allowed: [],
  own: ["localhost:30500", "registry.berth.test:5000"],
};

/** Returns the host, or why it was refused. */
async function answerTo(host: string, given: Partial<RegistryRules> = {}): Promise<string> {
  const asked = Promise.resolve().then(() => requireRegistryHost(host, { ...rules, ...given }));
  return asked.catch(async () => (await refused(asked)).split(" ").at(-1)!);
}

test.each([
  ["ghcr.io", "ghcr.io"],
  [" GHCR.io:443 ", "ghcr.io"],
  ["registry.example.com:5000", "registry.example.com:5000"],
  ["index.docker.io", "docker.io"],
  ["8.8.8.8:5000", "8.8.8.8:5000"],
])("%j is stored as images name it", async (given, host) => {
  expect(await answerTo(given)).toBe(host);
});

test.each([
  ...["", "library", "https://ghcr.io", "ghcr.io/shop", "user@ghcr.io", "ghcr.io:0", "ghcr.io:70000"],
  ...["gh cr.io", "ghcr..io", "ghcr.io@sha256", "a.b\0c"],
])("%j is no host of a registry", async (given) => {
  expect(await answerTo(given)).toBe("invalid_host");
});

test.each([
  ...[
    "localhost",
    "localhost:5000",
    "api.localhost:80",
    "127.0.0.1",
    "127.1:5000",
    "0x7f.1",
    "2130706433:5000",
  ],
  ...["10.0.0.1", "169.254.169.254", "168.63.129.16:80", "[::1]:5000", "[fd00::1]", "[::ffff:a00:1]"],
  ...["registry.berth.test:5000", "localhost:30500"],
])("%j leads to no registry of somebody else", async (given) => {
  expect(await answerTo(given)).toBe("host_not_allowed");
});

test("where images may only come from some registries, so may logins, and those may be in a private network", async () => {
  const allowed = ["docker.io/library", "10.0.0.1:5000", "localhost:30500"];
  expect(await answerTo("docker.io", { allowed })).toBe("docker.io");
  expect(await answerTo("10.0.0.1:5000", { allowed })).toBe("10.0.0.1:5000");
  expect(await answerTo("ghcr.io", { allowed })).toBe("registry_not_allowed");
  expect(await answerTo("localhost:30500", { allowed })).toBe("host_not_allowed");
});

test("none may be where the operator allows only his own logins", async () => {
  expect(await answerTo("ghcr.io", { accounts: false })).toBe("registry_not_allowed");
});
