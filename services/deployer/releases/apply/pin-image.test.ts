import type { V1Deployment } from "@kubernetes/client-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { newId } from "../../../kit/ids.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startLocalEngine } from "../../engine/local.ts";
import { createDigestResolver, type ImageDigests } from "../../images/digests/resolve-digest.ts";
import { startRegistry, type TestRegistry } from "../../images/digests/testing.ts";
import { connectKube } from "../../kube/client.ts";
import { Deployment } from "../../kube/kinds.ts";
import { namespaceOf } from "../../kube/names.ts";
import { manyOptions } from "../../runtime/kubernetes/many/testing.ts";
import { createEnvironments } from "../../runtime/kubernetes/namespace/namespaces.ts";
import { createKubernetesRuntime } from "../../runtime/kubernetes/runtime.ts";
import { actAs, startDeployer, type TestDeployer } from "../../testing/testing.ts";

// A deployer on a simulated cluster, whose images are in a registry of the test.

let berth: TestDeployer;
let registry: TestRegistry;
let api: Awaited<ReturnType<typeof startKubeApi>>;
const digests: ImageDigests = { required: false, resolve: async () => undefined };

beforeAll(async () => {
  [api, registry] = await Promise.all([startKubeApi(), startRegistry()]);
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  berth = await startDeployer({}, async (config, secrets, log) => {
    if (config.engine === "kubernetes") throw new Error("what it builds is on this machine");
    const local = await startLocalEngine(config, secrets, log);
    const options = manyOptions({ kube: connectKube(api.config), log });
    const environments = createEnvironments(options);
    const runtime = createKubernetesRuntime(options, environments);
    await runtime.start();
    const place = { push: registry.host, pull: registry.host, insecure: true };
    digests.resolve = createDigestResolver({ ...place, logins: [], allowed: [], log });
    const stop = async () => {
      await Promise.all([runtime.stop(), local.stop()]);
      await environments.stop();
    };
    return { ...local, runtime, imageDigests: digests, stop };
  });
});
afterAll(async () => {
  await berth?.stop();
  await Promise.all([api?.stop(), registry?.stop()]);
});
beforeEach(() => {
  digests.required = false;
  registry.answerFirst(() => false);
});

/** A web service of a new account. `running` is the image that the cluster was given for it. */
async function webService() {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  await acting.catalog.createService({ ...environment, name: "web", type: "web" });
  const path = environment.at("web");
  const deploy = async (image?: string) => (await acting.deployments.deploy({ ...path, image })).version;
  const namespace = namespaceOf("many", environment.environmentId);
  const running = async () => {
    const found = await connectKube(api.config).get<V1Deployment>(Deployment, "web", namespace);
    return found!.spec!.template.spec!.containers[0]!.image;
  };
  return { ...acting, path, deploy, running };
}

test("an image runs by the digest that its tag has when it is deployed, and again after the tag has moved", async () => {
  const { deploy, running, path, until, deployments, tryOut, catalog } = await webService();
  const image = `${registry.host}/shop/web:1`;
  const first = `${image}@${registry.push("shop/web:1")}`;
  await deploy(image);
  expect(await until(path, 1, "applied")).toMatchObject({ image: first, warnings: [], errors: [] });
  expect(await running()).toBe(first);
  expect((await tryOut.deploy({ ...path, image })).diff?.image).toMatchObject({ changed: false });

  const second = `${image}@${registry.push("shop/web:1")}`;
  await deploy();
  await until(path, 2, "applied");
  expect(await running()).toBe(first);
  await catalog.updateService({ ...path, source: { image } });
  await deploy();
  expect(await until(path, 3, "applied")).toMatchObject({ image: second });
  expect(await running()).toBe(second);
  expect((await catalog.getService(path)).source?.image).toBe(image);

  await berth.pool.query("update deployments set healthy_at = now() where status = 'applied'");
  await deployments.rollback({ ...path, version: 1 });
  expect(await until(path, 4, "applied")).toMatchObject({ image: first });
  expect(await running()).toBe(first);
});

test("a tag that there is not fails the deployment at once, and what runs stays", async () => {
  const { deploy, running, path, until } = await webService();
  const digest = registry.push("shop/web:2");
  await deploy(`${registry.host}/shop/web:2`);
  await until(path, 1, "applied");
  await deploy(`${registry.host}/shop/web:never`);
  const { errors } = await until(path, 2, "failed");
  expect(errors).toMatchObject([{ stage: "apply", code: "image_not_found" }]);
  expect(errors[0]!.message).toContain("shop/web:never");
  expect(await running()).toBe(`${registry.host}/shop/web:2@${digest}`);
});

test("where the registry does not answer, the tag is deployed with a warning; where digests are required, once it does", async () => {
  const { deploy, running, path, until, deployments } = await webService();
  const image = `${registry.host}/shop/web:3`;
  const digest = registry.push("shop/web:3");
  registry.answerFirst((_, response) => response.writeHead(429).end());
  await deploy(image);
  const { warnings } = await until(path, 1, "applied");
  expect(warnings).toMatchObject([{ stage: "apply", code: "image_not_pinned" }]);
  expect(await running()).toBe(image);

  digests.required = true;
  await deploy(image);
  const waiting = await eventually("it says what it waits for", async () => {
    const found = await deployments.getDeployment({ ...path, version: 2 });
    return found.warnings.length > 0 && found;
  });
  expect(waiting).toMatchObject({ status: "queued", image, warnings: [{ code: "image_not_pinned" }] });
  registry.answerFirst(() => false);
  expect(await until(path, 2, "applied")).toMatchObject({ image: `${image}@${digest}`, warnings: [] });
  expect(await running()).toBe(`${image}@${digest}`);
});
