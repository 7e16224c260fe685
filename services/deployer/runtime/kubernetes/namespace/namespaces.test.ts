import type { V1Secret } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { createPullLogins } from "../../../images/pulls/logins.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, ResourceQuota, Secret } from "../../../kube/kinds.ts";
import { namespaceOf } from "../../../kube/names.ts";
import { manyOptions } from "../many/testing.ts";
import { PULL_SECRET } from "../release/manifests.ts";
import { createEnvironments } from "./namespaces.ts";
import { TURNS } from "./needs-apply.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** Starts what a deployer knows of namespaces. */
async function start(
  api: KubeApi,
  registryAuth = (_: string) => "pulls",
  given: Parameters<typeof manyOptions>[0] | object = {},
) {
  const log = { info() {}, warn() {}, error() {} };
  const kube = connectKube(api.config);
  const environments = createEnvironments({ ...manyOptions({ kube, log, ...given }), registryAuth });
  stops.push(async () => environments.stop());
  await environments.start();
  return environments;
}

test("a namespace with another login for pulls gets the current one at a deployer's start, once", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  const before = await start(api, () => "pushes and pulls");
  const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };
  const namespace = await before.ensure(environment);
  const login = async () => {
    const secret = await kube.get<V1Secret>(Secret, PULL_SECRET, namespace);
    return Buffer.from(secret?.data?.[".dockerconfigjson"] ?? "", "base64").toString();
  };
  expect(await login()).toBe("pushes and pulls");

  const after = await start(api);
  await after.reapply();
  expect(await login()).toBe("pulls");
  const writes = api.writes().length;
  await (await start(api)).reapply();
  expect(api.writes()).toHaveLength(writes);
});

test("each account's namespaces hold its own login, and another key renews them all once", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  const loginsBy = (key: number) => {
    const { configFor } = createPullLogins([Buffer.alloc(32, key)]);
    return (accountId: string) => configFor("localhost:30500", accountId);
  };
  const environments = [1, 2, 3].map((n) => ({
    accountId: `acc_${Math.min(n, 2)}`,
    projectId: `prj_${n}`,
    environmentId: `env_${n}`,
  }));
  const read = async () => {
    const secrets = environments.map(({ environmentId }) =>
      kube.get<V1Secret>(Secret, PULL_SECRET, namespaceOf("many", environmentId)),
    );
    return (await Promise.all(secrets)).map((secret) =>
      Buffer.from(secret?.data?.[".dockerconfigjson"] ?? "", "base64").toString(),
    );
  };
  const before = await start(api, () => "nodes");
  for (const environment of environments) await before.ensure(environment);
  for (const key of [1, 2]) {
    const wanted = environments.map(({ accountId }) => loginsBy(key)(accountId));
    expect(new Set(wanted).size).toBe(2);
    await (await start(api, loginsBy(key))).reapply();
    expect(await read()).toEqual(wanted);
    const writes = api.writes().length;
    await (await start(api, loginsBy(key))).reapply();
    expect(api.writes()).toHaveLength(writes);
  }
});

test("what another deployer applied is not applied again, unless it turned out to lack something", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };
  const namespace = await (await start(api)).ensure(environment);
  const next = await start(api);
  const writes = api.writes().length;
  await next.ensure(environment);
  expect(api.writes()).toHaveLength(writes);
  next.invalidate(namespace);
  await next.ensure(environment);
  expect(api.writes().length).toBeGreaterThan(writes + 1);
  const restored = api.writes().length;
  await next.ensure(environment);
  expect(api.writes()).toHaveLength(restored);
  await next.remove(environment.environmentId);
  await eventually("it is gone", async () => !next.has(namespace));
  await next.ensure(environment);
  expect(await connectKube(api.config).get(ResourceQuota, "berth", namespace)).toBeTruthy();
});

test("a plan that was learned before a transaction is not asked for in it, even if the namespace goes meanwhile", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  let asked = 0;
  const plansOf = async () => {
    asked++;
    return new Map();
  };
  const environments = await start(api, undefined, { plansOf });
  const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };
  await environments.learnPlan(environment.environmentId);
  const namespace = await environments.ensure(environment);
  await eventually("it is seen", async () => environments.has(namespace));
  await connectKube(api.config).remove(Namespace, namespace);
  await eventually("it is gone", async () => !environments.has(namespace));
  await environments.ensure(environment);
  await eventually("it is back", async () => environments.has(namespace));
  expect(asked).toBe(1);
});

test("what somebody removed from a namespace comes back within ten turns, and no turn takes all namespaces", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  const environments = await start(api);
  const names: string[] = [];
  for (const character of "0123456789abcdefghjkmnpqrstvwxyz")
    names.push(
      await environments.ensure({
        accountId: "acc_1",
        projectId: "prj_1",
        environmentId: `env_${character}`,
      }),
    );
  await eventually("all are seen", async () => environments.namespaces().length === names.length);
  for (const name of names) await kube.remove(ResourceQuota, "berth", name);
  const restored = async () => {
    const quotas = await Promise.all(names.map((name) => kube.get(ResourceQuota, "berth", name)));
    return quotas.filter(Boolean).length;
  };
  await environments.reapply();
  expect(await restored()).toBe(0);
  for (let turn = 0, before = 0; turn < TURNS; turn++) {
    await environments.reapply(turn);
    const now = await restored();
    expect(now - before).toBeLessThanOrEqual(names.length / 5);
    before = now;
  }
  expect(await restored()).toBe(names.length);
});
