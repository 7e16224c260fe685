import { inspect } from "node:util";
import type { V1Secret } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RegistryService } from "../../../../proto/gen/berth/deployer/v1/registries_pb.ts";
import { AccountDeletedSchema } from "../../../../proto/gen/berth/identity/v1/events_pb.ts";
import { startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { newId } from "../../../kit/ids.ts";
import { refused } from "../../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../../kit/testing/testing.ts";
import { startLocalEngine } from "../../engine/local.ts";
import { connectKube } from "../../kube/client.ts";
import { Deployment, Secret } from "../../kube/kinds.ts";
import { namespaceOf } from "../../kube/names.ts";
import { manyOptions } from "../../runtime/kubernetes/many/testing.ts";
import { createEnvironments } from "../../runtime/kubernetes/namespace/namespaces.ts";
import { PULL_SECRET } from "../../runtime/kubernetes/release/manifests.ts";
import { createKubernetesRuntime } from "../../runtime/kubernetes/runtime.ts";
import { actAs, startDeployer, type TestDeployer } from "../../testing/testing.ts";
import { createDigestResolver } from "../digests/resolve-digest.ts";
import { startRegistry, type TestRegistry } from "../digests/testing.ts";
import { MAX_REGISTRIES } from "./sql.ts";

// A deployer on a simulated cluster, and a registry that wants a login.

const OPERATORS = { auths: { "operator.test": { auth: "b3A6ZXJhdG9y" } } };
const basic = (user: string, token: string) => Buffer.from(`${user}:${token}`).toString("base64");

let berth: TestDeployer;
let registry: TestRegistry;
let api: Awaited<ReturnType<typeof startKubeApi>>;
let environments: ReturnType<typeof createEnvironments>;
const logged: string[] = [];

beforeAll(async () => {
  [api, registry] = await Promise.all([startKubeApi(), startRegistry()]);
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  const settings = { ALLOWED_REGISTRIES: `${registry.host},ghcr.io,docker.io,r.test` };
  berth = await startDeployer(settings, async (config, secrets, log, plansOf) => {
    if (config.engine === "kubernetes") throw new Error("what it builds is on this machine");
    const local = await startLocalEngine(config, secrets, log);
    const given = manyOptions({ kube: connectKube(api.config), log, plansOf });
    const options = { ...given, registryAuth: () => JSON.stringify(OPERATORS) };
    environments = createEnvironments(options);
    const runtime = createKubernetesRuntime(options, environments);
    await environments.start();
    await runtime.start();
    const note = (...all: unknown[]) => void logged.push(JSON.stringify(all));
    const place = { push: registry.host, pull: registry.host, insecure: true };
    const quiet = { info: note, warn: note, error: note } as unknown as typeof log;
    const resolve = createDigestResolver({ ...place, logins: [], allowed: [], log: quiet });
    const stop = async () => {
      await Promise.all([runtime.stop(), local.stop()]);
      await environments.stop();
    };
    return { ...local, runtime, imageDigests: { required: false, resolve }, stop };
  });
});
afterAll(async () => {
  await berth?.stop();
  await Promise.all([api?.stop(), registry?.stop()]);
});

/** An account with a web service, and what nodes pull with in its environment. */
async function someone() {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId } = acting;
  const environment = await acting.environment();
  await acting.catalog.createService({ ...environment, name: "web", type: "web" });
  const path = environment.at("web");
  const registries = clientAs(RegistryService, berth.port, { accountId, role: "owner" });
  const namespace = namespaceOf("many", environment.environmentId);
  const auths = async (): Promise<Record<string, { auth: string }>> => {
    const secret = await connectKube(api.config).get<V1Secret>(Secret, PULL_SECRET, namespace);
    expect(secret?.type).toBe("kubernetes.io/dockerconfigjson");
    return JSON.parse(Buffer.from(secret?.data?.[".dockerconfigjson"] ?? "", "base64").toString()).auths;
  };
  return {
    ...{ ...acting, accountId, path, registries, auths, namespace },
    add: (host: string, user = "ci", token = "secret-token") =>
      registries.createRegistry({ accountId, host, user, token }),
    list: async () => (await registries.listRegistries({ accountId, limit: 100 })).data,
    async deploy(image: string) {
      const { version } = (await acting.deployments.deploy({ ...path, image })) as { version: number };
      return acting.until(path, version, "applied");
    },
  };
}

/** Has the registry answer only whoever sends this login. */
const wants = (auth: string) =>
  registry.answerFirst(({ headers }, response) => {
    if (headers.authorization === `Basic ${auth}`) return false;
    return response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
  });

test("a login pulls the account's images: their digests are found with it, and nodes have it in each environment", async () => {
  const { add, registries, accountId, auths, deploy, list } = await someone();
  const image = `${registry.host}/shop/web:1`;
  const digest = registry.push("shop/web:1");
  wants(basic("ci", "secret-token"));
  const before = await deploy(image);
  expect(before.warnings.map(({ code }) => code)).toContain("image_not_pinned");
  expect(Object.keys(await auths())).toEqual(["operator.test"]);

  const made = await add(registry.host);
  expect(inspect([made, await list()], { depth: 9 })).not.toContain("secret-token");
  await add("docker.io", "hub");
  expect((await deploy(image)).image).toBe(`${image}@${digest}`);
  expect(await auths()).toEqual({
    ...OPERATORS.auths,
    [registry.host]: { auth: basic("ci", "secret-token") },
    "https://index.docker.io/v1/": { auth: basic("hub", "secret-token") },
  });

  wants(basic("ci", "another"));
  const rotated = await registries.updateRegistry({ accountId, registryId: made.id, token: "another" });
  expect(rotated).toMatchObject({ user: "ci", rotatedAt: expect.anything() });
  expect((await deploy(image)).image).toBe(`${image}@${digest}`);
  await environments.reapply();
  expect((await auths())[registry.host]).toEqual({ auth: basic("ci", "another") });

  for (const { id } of await list()) await registries.deleteRegistry({ accountId, registryId: id });
  await environments.reapply();
  expect(await auths()).toEqual(OPERATORS.auths);
  expect(logged.join()).not.toContain("secret-token");
});

test("nodes are given images by the host of their login, however an image was written", async () => {
  const { add, auths, deploy, namespace } = await someone();
  await add("R.test:443");
  await deploy("R.test:443/shop/web:1");
  const { items } = await connectKube(api.config).list(Deployment, { namespace });
  expect(items[0]?.spec?.template.spec?.containers.map(({ image }) => image)).toEqual(["r.test/shop/web:1"]);
  expect(Object.keys(await auths())).toContain("r.test");
});

test("accounts see, change and use only their own, and only owners do so", async () => {
  const [one, other] = [await someone(), await someone()];
  const { id } = await one.add("ghcr.io");
  await one.deploy(`${registry.host}/shop/web:2`);
  await other.deploy(`${registry.host}/shop/web:2`);
  expect(Object.keys(await one.auths())).toContain("ghcr.io");
  expect(Object.keys(await other.auths())).toEqual(["operator.test"]);
  expect(await other.list()).toEqual([]);
  const { accountId, registries } = other;
  const asked = [
    registries.getRegistry({ accountId, registryId: id }),
    registries.updateRegistry({ accountId, registryId: id, token: "x" }),
    registries.deleteRegistry({ accountId, registryId: id }),
  ];
  for (const answer of await Promise.all(asked.map(refused))) expect(answer).toBe("404 not_found");
  const editor = clientAs(RegistryService, berth.port, { accountId: one.accountId, role: "editor" });
  expect(await refused(editor.listRegistries({ accountId: one.accountId }))).toContain("403");
  expect(await one.list()).toMatchObject([{ id, host: "ghcr.io", user: "ci" }]);
  const shown = await one.registries.getRegistry({ accountId: one.accountId, registryId: id });
  expect(shown).toMatchObject({ id, host: "ghcr.io", user: "ci" });
});

test("a host once, some of them, with a user that can be sent; and nothing is left of a deleted account", async () => {
  const { add, accountId, list } = await someone();
  await add("ghcr.io");
  expect(await refused(add("GHCR.IO:443"))).toBe("409 registry_exists");
  expect(await refused(add("quay.io"))).toContain("registry_not_allowed");
  for (const user of ["", "a:b", "a b", "a\n"])
    expect(await refused(add("docker.io", user))).toContain("invalid_user");
  expect(await refused(add("docker.io", "ci", ""))).toContain("required");
  await berth.pool.query(
    `insert into registries (id, account_id, host, username, token)
     select 'reg_' || $1 || n, $1, n || '.r.test', 'ci', '' from generate_series(2, $2::int) n`,
    [accountId, MAX_REGISTRIES],
  );
  expect(await refused(add("r.test"))).toBe("403 quota_exceeded");
  expect(await list()).toHaveLength(MAX_REGISTRIES);
  await berth.variables.publish(AccountDeletedSchema, accountId, { accountId });
  await eventually("they are gone", async () => {
    const { rowCount } = await berth.pool.query("select from registries where account_id = $1", [accountId]);
    return rowCount === 0;
  });
  expect(await refused(add("docker.io"))).toContain("403");
});

test("tokens are sealed where they are stored, and a login that no key opens is left out alone", async () => {
  const { add, auths, deploy, accountId } = await someone();
  const { id } = await add("ghcr.io", "ci", "a-token-of-this-test");
  await add("docker.io", "hub", "a-token-of-this-test");
  const { rows } = await berth.pool.query("select * from registries where account_id = $1", [accountId]);
  expect(rows.map(({ token }) => token.toString("latin1")).join()).not.toContain("a-token-of-this-test");
  await berth.pool.query("update registries set token = 'broken' where id = $1", [id]);
  await deploy(`${registry.host}/shop/web:3`);
  expect(Object.keys(await auths())).toEqual(["operator.test", "https://index.docker.io/v1/"]);
});
