import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { never, requestOf } from "../../../../../test/contracts/ports/builder/harness.ts";
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

/**
 * A registry that holds one image of each of these services, by digest, in `apps` or another repository; `removed` says
 * which are no more.
 */
async function registryOf(images: Record<string, { service: string; build: string; repository?: string }>) {
  const removed: string[] = [];
  const host = await serve(({ method, url = "" }, response) => {
    const [, place, kind, of] = /^\/v2\/berth\/(.+)\/(manifests|blobs)\/(.+)$/.exec(url) ?? [];
    const [id = "", image] =
      Object.entries(images).find(([digest, { build }]) => of === digest || of === build) ?? [];
    if (!image || place !== (image.repository ?? "apps")) return response.writeHead(404).end("{}");
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

/** A builder whose nodes know the registry at `host` as registry.test. */
async function builderFor(host: string, pathPerAccount = false) {
  return createJobBuilder({
    kube: await emptyCluster(),
    store: { stat: async () => undefined, presignGet: async () => "" },
    registry: { push: `${host}/berth`, pull: "registry.test:5000/berth", insecure: true, pathPerAccount },
    baseImages: { node: "", python: "", go: "", static: "" },
    variables: {},
    namespace: "builds",
    image: "builder",
    userNamespaces: false,
    resources: {},
    log,
  });
}

test("an image is removed for the service whose build its label names, by any name of the registry", async () => {
  const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
  const [mine, other] = [digest("a"), digest("b")];
  const { host, removed } = await registryOf({
    [mine]: { service: "svc_mine", build: "bld_1" },
    [other]: { service: "svc_other", build: "bld_2" },
  });
  const builder = await builderFor(host);
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

test("an account's images are found and removed in its path, and where all images were before it had one", async () => {
  const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
  const [shared, mine, left, other] = ["a", "b", "c", "d"].map(digest) as [string, string, string, string];
  const { host, removed } = await registryOf({
    [shared]: { service: "svc_1", build: "bld_1" },
    [mine]: { service: "svc_1", build: "bld_2", repository: "apps/acc_1" },
    [left]: { service: "svc_1", build: "bld_3", repository: "apps/acc_1" },
    [other]: { service: "svc_2", build: "bld_4", repository: "apps/acc_2" },
  });
  const builder = await builderFor(host, true);
  const request = await requestOf({ put: async () => {} } as never, Buffer.of(), { accountId: "acc_1" });
  const build = (buildId: string) => builder.build({ ...request, buildId }, never);
  const path = "image:registry.test:5000/berth/apps";
  expect((await build("bld_1")).artifact).toBe(`${path}@${shared}`);
  expect((await build("bld_2")).artifact).toBe(`${path}/acc_1@${mine}`);

  await builder.removeArtifact(`${path}@${shared}`, "svc_1");
  await builder.removeArtifact(`${path}/acc_1@${mine}`, "svc_1");
  await builder.removeArtifact(`${path}@${left}`, "svc_1");
  await builder.removeArtifact(`${path}/acc_2@${left}`, "svc_1");
  await builder.removeArtifact(`${path}/acc_2@${other}`, "svc_1");
  expect(removed).toEqual([shared, mine]);
  await builder.discard({ buildId: "bld_3", accountId: "acc_1" });
  await builder.discard({ buildId: "bld_4", accountId: "acc_1" });
  expect(removed).toEqual([shared, mine, left]);
});
