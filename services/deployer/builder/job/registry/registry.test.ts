import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { connectRegistry, repositoryOf } from "./registry.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** A registry with one image, `berth/apps:one`, that lets in whoever `allows` says. */
async function openRegistry(allows: (request: IncomingMessage) => string | undefined) {
  const digest = `sha256:${"a".repeat(64)}`;
  const removed: string[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const { url = "", method, headers } = request;
    if (url.startsWith("/token")) {
      const known = headers.authorization === `Basic ${Buffer.from("user:secret").toString("base64")}`;
      response
        .writeHead(known ? 200 : 401)
        .end(JSON.stringify({ token: `for ${new URL(url, "http://x").searchParams.get("scope")}` }));
      return;
    }
    const challenge = allows(request);
    if (challenge !== undefined) {
      response.writeHead(401, { "www-authenticate": challenge }).end("{}");
      return;
    }
    if (method === "DELETE") {
      removed.push(url);
      response.writeHead(url.includes("apps") ? 202 : 405).end();
    } else if (url === "/v2/berth/apps/manifests/one")
      response
        .writeHead(200, { "docker-content-digest": digest })
        .end(JSON.stringify({ config: { digest: "sha256:c" } }));
    else if (url === "/v2/berth/apps/blobs/sha256:c")
      response.writeHead(200).end(JSON.stringify({ config: { Labels: { a: "1" } } }));
    else response.writeHead(404).end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { host, digest, removed };
}

const credentials = (host: string) =>
  JSON.stringify({ auths: { [`https://${host}/v1/`]: { username: "user", password: "secret" } } });

describe("a registry", () => {
  test("is asked for an image under a tag, and has it removed by its digest", async () => {
    const { host, digest, removed } = await openRegistry(() => undefined);
    const registry = connectRegistry({ push: `${host}/berth`, pull: "", insecure: true });
    expect(await registry.find(`${host}/berth/apps:one`)).toEqual({ digest, labels: { a: "1" } });
    expect(await registry.find(`${host}/berth/apps:other`)).toBeUndefined();
    expect(await registry.remove(`${host}/berth/apps@${digest}`)).toBe(true);
    expect(removed).toEqual([`/v2/berth/apps/manifests/${digest}`]);
    expect(await registry.remove(`${host}/berth/fixed@${digest}`)).toBe(false);
  });

  test("gets its credentials, directly or as a token for what is done", async () => {
    const basic = `Basic ${Buffer.from("user:secret").toString("base64")}`;
    const direct = await openRegistry(({ headers }) =>
      headers.authorization === basic ? undefined : 'Basic realm="r"',
    );
    const auth = credentials(direct.host);
    const one = connectRegistry({ push: `${direct.host}/berth`, pull: "", insecure: true, auth });
    expect(await one.find(`${direct.host}/berth/apps:one`)).toMatchObject({ labels: { a: "1" } });

    const scopes = new Set<string>();
    const by = await openRegistry(({ headers, method }) => {
      const scope = `repository:berth/apps:${method === "DELETE" ? "delete" : "pull"}`;
      scopes.add(scope);
      return headers.authorization === `Bearer for ${scope}`
        ? undefined
        : `Bearer realm="http://${headers.host}/token",service="s",scope="${scope}"`;
    });
    const other = connectRegistry({
      push: `${by.host}/berth`,
      pull: "",
      insecure: true,
      auth: credentials(by.host),
    });
    expect(await other.find(`${by.host}/berth/apps:one`)).toMatchObject({ digest: by.digest });
    expect(await other.remove(`${by.host}/berth/apps@${by.digest}`)).toBe(true);
    expect(scopes.size).toBe(2);
  });

  test("that refuses is named without what it was given", async () => {
    const { host } = await openRegistry(() => 'Basic realm="r"');
    const auth = credentials(host);
    const registry = connectRegistry({ push: `${host}/berth`, pull: "", insecure: true, auth });
    const error: Error = await registry.find(`${host}/berth/apps:one`).catch((thrown) => thrown);
    expect(error.message).toContain(host);
    expect(error.message).not.toContain("secret");
  });

  test("references have to be complete", () => {
    expect(repositoryOf("r.test:5000/a/b:1@sha256:00")).toBe("r.test:5000/a/b");
    for (const bad of ["alpine", "alpine:1", "r.test/a", "r.test/A:1"])
      expect(() => repositoryOf(bad)).toThrow("complete");
  });
});
