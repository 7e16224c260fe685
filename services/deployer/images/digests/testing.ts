import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type TestRegistry = Awaited<ReturnType<typeof startRegistry>>;

/** Starts a registry, over plain HTTP, of tags that the test pushes. */
export async function startRegistry() {
  const digests = new Map<string, string>();
  const asked: string[] = [];
  let first: (request: IncomingMessage, response: ServerResponse) => unknown = () => false;

  const server = createServer(async (request, response) => {
    const { method, url = "" } = request;
    asked.push(`${method} ${url}`);
    if ((await first(request, response)) !== false) return;
    const [, repository, tag] = /^\/v2\/(.+)\/manifests\/(.+)$/.exec(url) ?? [];
    const digest = digests.get(`${repository}:${tag}`);
    if (digest) return response.writeHead(200, { "docker-content-digest": digest }).end();
    const body = JSON.stringify({ errors: [{ code: "MANIFEST_UNKNOWN", message: "manifest unknown" }] });
    response.writeHead(404, { "content-type": "application/json" }).end(body);
  });
  let connections = 0;
  server.on("connection", () => connections++);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** All requests so far, as `METHOD path`. */
    asked,
    connections: () => connections,
    /** Has the tag stand for a new image, and returns its digest. */
    push(tag: string): string {
      const digest = `sha256:${randomBytes(32).toString("hex")}`;
      digests.set(tag, digest);
      return digest;
    },
    /** Has `answer` answer requests before the registry does; it returns false for those that it leaves. */
    answerFirst(answer: typeof first): void {
      first = answer;
    },
    async stop(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
