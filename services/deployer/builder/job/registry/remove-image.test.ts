import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { connectKube } from "../../../kube/client.ts";
import { createJobBuilder } from "../adapter.ts";

const log = { info() {}, warn() {}, error: console.error };
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A cluster in which nothing is. */
async function emptyCluster() {
  const kinds = [
    { name: "jobs", kind: "Job", namespaced: true },
    { name: "pods", kind: "Pod", namespaced: true },
    { name: "secrets", kind: "Secret", namespaced: true },
  ];
  const host = await serve(({ url = "" }, response) => {
    const [path] = url.split("?");
    const known = path === "/api/v1" || path === "/apis/batch/v1";
    const list = path!.endsWith("/pods");
    const body = known ? { resources: kinds } : list ? { kind: "PodList", apiVersion: "v1", items: [] } : {};
    response.writeHead(known || list ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  });
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: "empty", server: `http://${host}`, skipTLSVerify: true },
    { name: "nobody" },
  );
  return connectKube(config);
}

/** A registry that holds one image of each of these services, by digest; `removed` says which are no more. */
async function registryOf(images: Record<string, { service: string; build: string }>) {
  const removed: string[] = [];
  const host = await serve(({ method, url = "" }, response) => {
    const [, kind, id = ""] = /^\/v2\/berth\/apps\/(manifests|blobs)\/(.+)$/.exec(url) ?? [];
    const image = images[id];
    if (!image) return response.writeHead(404).end("{}");
    if (method === "DELETE") {
      removed.push(id);
      return response.writeHead(202).end();
    }
    const labels = { "dev.berth.service": image.service, "dev.berth.build": image.build };
    if (kind === "blobs") return response.end(JSON.stringify({ config: { Labels: labels } }));
    response.setHeader("docker-content-digest", id).end(JSON.stringify({ config: { digest: id } }));
  });
  return { host, removed };
}

test("an image is removed for the service whose build its label names, by any name of the registry", async () => {
  const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
  const [mine, other] = [digest("a"), digest("b")];
  const { host, removed } = await registryOf({
    [mine]: { service: "svc_mine", build: "bld_1" },
    [other]: { service: "svc_other", build: "bld_2" },
  });
  const builder = createJobBuilder({
    kube: await emptyCluster(),
    store: { stat: async () => undefined, presignGet: async () => "" },
    registry: { push: `${host}/berth`, pull: "registry.test:5000/berth", insecure: true },
    baseImages: { node: "", python: "", go: "", static: "" },
    variables: {},
    namespace: "builds",
    image: "builder",
    userNamespaces: false,
    resources: {},
    log,
  });
  for (const left of [
    `image:registry.test:5000/berth/apps@${other}`,
    `image:${host}/berth/apps:bld_2@${other}`,
    "image:registry.test:5000/berth/apps:bld_1",
    `image:registry.test:5000/elsewhere/apps@${mine}`,
    `image:docker.io/library/node@${mine}`,
    "directory:bld_1",
  ])
    await builder.removeArtifact(left, "svc_mine");
  expect(removed).toEqual([]);
  await builder.removeArtifact(`image:REGISTRY.test:5000/berth/apps@${mine}`, "svc_mine");
  expect(removed).toEqual([mine]);
});
