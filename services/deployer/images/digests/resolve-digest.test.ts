import { afterEach, beforeEach, expect, test } from "vitest";
import { looksUpByThread } from "../../../kit/testing/look-up.ts";
import { createDigestResolver, type DigestOptions } from "./resolve-digest.ts";
import { startRegistry, type TestRegistry } from "./testing.ts";

let registry: TestRegistry;
beforeEach(async () => {
  registry = await startRegistry();
});
afterEach(() => registry.stop());

const LOGIN = `Basic ${Buffer.from("user:secret").toString("base64")}`;

/** Resolves with the test's registry as the platform's, which nodes know by another name. */
function resolver(more: Partial<DigestOptions> = {}) {
  const log = { info() {}, warn() {}, error() {} } as unknown as DigestOptions["log"];
  const place = { push: `${registry.host}/berth`, pull: "registry.test:5000/berth", insecure: true };
  return createDigestResolver({ ...place, logins: [], allowed: [], log, ...more });
}

const loginFor = (host: string) =>
  JSON.stringify({ auths: { [host]: { username: "user", password: "secret" } } });

test("a tag gets the digest that it has now, by every name of the registry, and stays readable", async () => {
  const first = registry.push("shop/web:1.4");
  const resolve = resolver();
  expect(await resolve(`${registry.host}/shop/web:1.4`)).toEqual({
    image: `${registry.host}/shop/web:1.4@${first}`,
  });
  const second = registry.push("shop/web:1.4");
  expect(await resolve("registry.test:5000/shop/web:1.4")).toEqual({
    image: `registry.test:5000/shop/web:1.4@${second}`,
  });
  const latest = registry.push("shop/web:latest");
  expect(await resolve(`${registry.host}/shop/web`)).toEqual({
    image: `${registry.host}/shop/web@${latest}`,
  });
});

test("what has a digest is not asked for", async () => {
  const image = `${registry.host}/shop/web:1@sha256:${"a".repeat(64)}`;
  expect(await resolver()(image)).toBeUndefined();
  expect(registry.asked).toEqual([]);
});

test("a tag that the registry does not have is missing, and one of which it does not say that is not", async () => {
  const resolve = resolver();
  const image = `${registry.host}/shop/web:never`;
  expect(await resolve(image)).toEqual({ missing: expect.stringContaining(image) });
  registry.answerFirst((_, response) => response.writeHead(404).end("{}"));
  expect(await resolve(image)).toEqual({ unknown: expect.stringContaining("404") });
});

test("a registry that wants a token gets the one of its realm, which is asked with the login", async () => {
  const digest = registry.push("shop/web:1");
  registry.answerFirst((request, response) => {
    const url = new URL(request.url!, `http://${registry.host}`);
    if (url.pathname === "/token") {
      const known = request.headers.authorization === LOGIN;
      const token = `${url.searchParams.get("service")} ${url.searchParams.get("scope")}`;
      return response.writeHead(known ? 200 : 401).end(JSON.stringify({ token }));
    }
    if (request.headers.authorization === "Bearer here repository:shop/web:pull") return false;
    const challenge = `Bearer realm="http://${registry.host}/token",service="here"`;
    return response.writeHead(401, { "www-authenticate": challenge }).end();
  });
  const image = `${registry.host}/shop/web:1`;
  const logins = [undefined, loginFor(registry.host)];
  expect(await resolver({ logins })(image)).toEqual({ image: `${image}@${digest}` });
  const found = await resolver({ logins: [loginFor("elsewhere.test")] })(image);
  expect(found).toEqual({ unknown: expect.stringContaining("401") });
  expect(JSON.stringify(found)).not.toContain("secret");
});

test("a redirect is followed, and another host does not get the login", async () => {
  const other = await startRegistry();
  try {
    const digest = other.push("shop/web:1");
    const seen: unknown[] = [];
    other.answerFirst(({ headers }) => {
      seen.push(headers.authorization);
      return false;
    });
    registry.answerFirst(({ url }, response) =>
      response.writeHead(307, { location: `http://${other.host}${url}` }).end(),
    );
    const image = `${registry.host}/shop/web:1`;
    const logins = [loginFor(registry.host)];
    expect(await resolver({ logins })(image)).toEqual({ image: `${image}@${digest}` });
    expect(seen).toEqual([undefined]);
    registry.answerFirst((request, response) => response.writeHead(307, { location: request.url! }).end());
    expect(await resolver()(image)).toEqual({ unknown: expect.stringContaining("307") });
  } finally {
    await other.stop();
  }
});

test("a registry that limits requests is believed, and asked again the next time", async () => {
  const digest = registry.push("shop/web:1");
  registry.answerFirst((_, response) => response.writeHead(429, { "retry-after": "60" }).end());
  const resolve = resolver();
  const image = `${registry.host}/shop/web:1`;
  expect(await resolve(image)).toEqual({ unknown: expect.stringContaining("429") });
  registry.answerFirst(() => false);
  expect(await resolve(image)).toEqual({ image: `${image}@${digest}` });
});

test("a registry that does not answer is given up, and not asked again for a while", async () => {
  registry.answerFirst(() => true);
  const resolve = resolver();
  const image = `${registry.host}/shop/web:1`;
  const unknown = { unknown: expect.stringContaining("could not be asked") };
  expect(await resolve(image)).toEqual(unknown);
  expect(await resolve(image)).toEqual(unknown);
  expect(registry.asked).toEqual(["HEAD /v2/shop/web/manifests/1"]);
});

test("a registry that the operator did not name is never asked at an address that is not public", async () => {
  const port = registry.host.split(":")[1];
  registry.push("shop/web:1");
  const elsewhere = { push: "registry.test:5000/berth", insecure: false };
  const resolve = resolver(elsewhere);
  for (const host of [registry.host, `localhost:${port}`, `[::1]:${port}`])
    expect(await resolve(`${host}/shop/web:1`)).toEqual({ unknown: expect.stringContaining(host) });
  expect(registry.connections()).toBe(0);
});

test("names of registries are looked up without the threads that servers of names could hold", async () => {
  expect(await looksUpByThread(() => resolver()("registry.berth-tests.dev/shop/web:1"))).toBe(false);
});
