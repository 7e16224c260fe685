import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, describe, expect, test } from "vitest";
import { connectKube } from "./client.ts";
import { Pod } from "./kinds.ts";
import { readPodLog } from "./pods/pod-log.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function connectTo(listener: RequestListener) {
  const server = createServer(listener);
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: "odd", server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
    { name: "nobody" },
  );
  return connectKube(config, 300);
}

const pod = { namespace: "shop", name: "app" };

async function linesOf(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

describe("an API that takes a request and says nothing", () => {
  test("fails the request", async () => {
    const kube = await connectTo(() => {});
    await expect(kube.get(Pod, "app", "shop")).rejects.toThrow("did not answer within 300 ms");
    await expect(kube.list(Pod, { namespace: "shop" })).rejects.toThrow("did not answer within 300 ms");
  });

  test("fails the reading of a log, also in its midst", async () => {
    const mute = await connectTo(() => {});
    await expect(linesOf(readPodLog(mute, pod, { container: "app" }))).rejects.toThrow("silent");
    const halting = await connectTo((_, response) => void response.write("2026-01-02T03:04:05Z one\n"));
    await expect(linesOf(readPodLog(halting, pod, { container: "app" }))).rejects.toThrow();
  });
});

describe("a connection that breaks", () => {
  const breaking: RequestListener = (request, response) =>
    void response.write("2026-01-02T03:04:05Z one\n", () => setTimeout(() => request.socket.destroy(), 50));

  test("ends a followed log, whose reader asks again", async () => {
    const kube = await connectTo(breaking);
    const lines = await linesOf(readPodLog(kube, pod, { container: "app", follow: true }));
    expect(lines).toEqual(["2026-01-02T03:04:05Z one"]);
  });

  test("fails a log that is read once: a part is not all of it", async () => {
    const kube = await connectTo(breaking);
    await expect(linesOf(readPodLog(kube, pod, { container: "app" }))).rejects.toThrow();
  });
});
