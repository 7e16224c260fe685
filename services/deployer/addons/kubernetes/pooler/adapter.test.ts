import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon } from "../../port.ts";
import { createPoolers } from "./adapter.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const namespace = "berth-env-1";
const NAME = "svc-1-pooler";
const addon: Addon = {
  ...{ serviceId: "svc_1", accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" },
  ...{ name: "db", type: "postgres", size: "nano", generation: 0 },
};

async function open() {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  api.store.put(kinds.Namespace, { metadata: { name: namespace } });
  api.store.put({ ...kinds.StatefulSet, namespace }, { metadata: { name: "svc-1" } });
  const openPoolers = (image?: string) =>
    createPoolers({ kube, namespacePrefix: "berth", user: 999, image, dns: {} });
  const deployment = () => kube.get(kinds.Deployment, NAME, namespace);
  /** As the controller does once the pod serves. */
  async function serve() {
    const counts = { replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
    const { generation = 0 } = (await deployment())!.metadata!;
    const status = { observedGeneration: generation, ...counts };
    const served = { metadata: { name: NAME, namespace }, status };
    await kube.merge(kinds.Deployment, served);
  }
  async function left() {
    const { Deployment, Service, Secret, NetworkPolicy } = kinds;
    const all = [Deployment, Service, Secret, NetworkPolicy];
    const lists = await Promise.all(all.map((kind) => kube.list(kind as typeof Secret, { namespace })));
    return lists.map(({ items }) => items.length);
  }
  return { api, kube, openPoolers, deployment, serve, left };
}

test("a pooler is made beside its server, and gone when it is removed", async () => {
  const { kube, openPoolers, deployment, serve, left } = await open();
  const poolers = openPoolers("pgbouncer:1");
  const password = newPassword();
  expect(await poolers.ensure(addon, password)).toMatchObject({ state: "waiting" });
  const { uid } = (await kube.get(kinds.StatefulSet, "svc-1", namespace))!.metadata!;
  expect((await deployment())?.metadata?.ownerReferences).toMatchObject([{ kind: "StatefulSet", uid }]);
  await serve();
  expect(await poolers.ensure(addon, password)).toEqual({ state: "ready" });
  expect(await left()).toEqual([1, 1, 1, 1]);
  for (let round = 0; round < 2; round++) await poolers.remove(addon);
  expect(await left()).toEqual([0, 0, 0, 0]);
});

test("a new password comes with a Secret of its own, and an older one is never brought back", async () => {
  const { openPoolers, deployment, serve, left } = await open();
  const poolers = openPoolers("pgbouncer:1");
  const [old, next] = [newPassword(), newPassword()];
  await poolers.ensure(addon, old);
  await serve();
  const before = await deployment();
  const now = { ...addon, generation: 1 };
  await poolers.ensure(now, next);
  expect((await deployment())?.spec?.template).not.toEqual(before?.spec?.template);
  expect((await left())[2]).toBe(2);
  await serve();
  expect(await poolers.ensure(now, next)).toEqual({ state: "ready" });
  expect((await left())[2]).toBe(1);
  await expect(poolers.ensure(addon, old)).rejects.toThrow("newer password");
});

test("without an image there are no poolers, and those that there are keep the one that they have", async () => {
  const { openPoolers, deployment, serve, left } = await open();
  const none = openPoolers();
  expect(none.reason).toContain("apps.addons.poolerImage");
  expect(await none.ensure(addon, newPassword())).toMatchObject({ state: "failed", message: none.reason });
  expect(await left()).toEqual([0, 0, 0, 0]);
  const password = newPassword();
  expect(openPoolers("pgbouncer:1").reason).toBeUndefined();
  await openPoolers("pgbouncer:1").ensure(addon, password);
  await serve();
  expect(await none.ensure(addon, password)).toEqual({ state: "ready" });
  expect((await deployment())?.spec?.template.spec?.containers[0]?.image).toBe("pgbouncer:1");
});

test("an addon whose server is gone gets no pooler", async () => {
  const { kube, openPoolers, left } = await open();
  await kube.remove(kinds.StatefulSet, "svc-1", namespace);
  expect(await openPoolers("pgbouncer:1").ensure(addon, newPassword())).toMatchObject({ state: "waiting" });
  expect(await left()).toEqual([0, 0, 0, 0]);
  await kube.remove(kinds.Namespace, namespace);
  await openPoolers("pgbouncer:1").remove(addon);
});
