import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../../kit/ids.ts";
import { createLog } from "../../../kit/log.ts";
import { eventually } from "../../../kit/testing.ts";
import { addonKeys } from "../../addon-keys.ts";
import { newPassword } from "../../addons.ts";
import { connectKube, type Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, labelsOf, nameOf, namespaceOf, selector } from "../../kube/names.ts";
import type { Addon, AddonOutcome, AddonType } from "../port.ts";
import { createKubernetesAddons } from "./adapter.ts";

const namespacePrefix = `addons-${randomBytes(3).toString("hex")}`;
const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
const images = inject("clusterImages");
const made = new Set<string>();

let kube: Kube;
let addons: ReturnType<typeof open>;
const changes = new EventEmitter();

/** The adapter as a deployer of its own has it. */
function open(
  more: { images?: Record<AddonType, string>; storage?: { size: string; className?: string } } = {},
) {
  const storage = { size: "64Mi" };
  const options = { kube, log, namespacePrefix, ensureNamespace, images, storage, ...more };
  const adapter = createKubernetesAddons(options);
  adapter.watch((serviceId) => changes.emit(serviceId));
  return adapter;
}

async function ensureNamespace(environment: { environmentId: string }): Promise<void> {
  const name = namespaceOf(namespacePrefix, environment.environmentId);
  made.add(name);
  const labels = { ...labelsOf(environment), "pod-security.kubernetes.io/enforce": "restricted" };
  await kube.apply(kinds.Namespace, { metadata: { name, labels } });
  await kube.apply(kinds.NetworkPolicy, {
    metadata: { name: "deny", namespace: name },
    spec: {
      podSelector: {},
      policyTypes: ["Ingress", "Egress"],
      egress: [{ to: [{ podSelector: {} }] }, { ports: [{ port: 53, protocol: "UDP" }] }],
    },
  });
}

beforeAll(() => {
  kube = connectKube();
  addons = open();
});

afterAll(async () => {
  await addons?.stop();
  for (const name of made) await kube.remove(kinds.Namespace, name);
});

function newAddon(type: AddonType, environmentId = newId("env")): Addon {
  const [serviceId, accountId, projectId] = [newId("svc"), newId("acc"), newId("prj")];
  const name = `${type}-${serviceId.slice(-4)}`;
  return { serviceId, accountId, projectId, environmentId, name, type, size: "nano", generation: 0 };
}

/** As the reconciler does: once more when something changed, and now and then. */
function until(state: AddonOutcome["state"], addon: Addon, password: string, by = addons) {
  return eventually(`the addon is ${state}`, async () => {
    const changed = once(changes, addon.serviceId, { signal: AbortSignal.timeout(2_000) }).catch(() => {});
    const outcome = await by.ensure(addon, password);
    if (outcome.state === state) return outcome;
    await changed;
    return false;
  });
}

const keysOf = (addon: Addon, password: string) =>
  Object.fromEntries(
    addonKeys(addon.type, addons.address(addon), addon.serviceId, password).map(({ key, value }) => [
      key,
      value,
    ]),
  ) as Record<"HOST" | "PORT" | "PASSWORD" | "URL", string>;

/** Runs a script in a pod of an environment, as an app would; gives its output and how it ended. */
async function inPod(environmentId: string, image: string, script: string, env: Record<string, string>) {
  const namespace = namespaceOf(namespacePrefix, environmentId);
  const name = `client-${randomBytes(3).toString("hex")}`;
  await ensureNamespace({ environmentId });
  await eventually("pods can be made", () =>
    kube
      .create(kinds.Pod, {
        metadata: { name, namespace },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 1000,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: "client",
              image,
              command: ["/bin/sh", "-c", script],
              env: Object.entries(env).map(([key, value]) => ({ name: key, value })),
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            },
          ],
        },
      })
      .catch(() => undefined),
  );
  const { status } = await eventually("the client has ended", async () => {
    const pod = await kube.get(kinds.Pod, name, namespace);
    return ["Succeeded", "Failed"].includes(pod?.status?.phase ?? "") && pod!;
  });
  const text = new PassThrough();
  const said = buffer(text);
  await kube.logs.log(namespace, name, "client", text, {});
  await kube.remove(kinds.Pod, name, namespace);
  return { ok: status?.phase === "Succeeded", said: (await said).toString().trim() };
}

/** Speaks to an addon with its own client. */
const ask = (addon: Addon, password: string, words: string, from = addon.environmentId) => {
  const { URL: url, HOST, PORT, PASSWORD } = keysOf(addon, password);
  const question =
    addon.type === "postgres"
      ? `PGCONNECT_TIMEOUT=5 psql "$URL" -v ON_ERROR_STOP=1 -qAtc "$QUESTION" 2>&1`
      : `timeout 5 redis-cli -e -h "$HOST" -p "$PORT" $QUESTION 2>&1`;
  // The network of a cluster takes a moment to learn where a new pod is.
  const script = `for try in 1 2 3 4 5 6 7 8 9 10; do said=$(${question}); end=$?
    echo "$said" | grep -q refused || break; sleep 0.5; done; echo "$said"; exit $end`;
  return inPod(from, images[addon.type], script, {
    ...{ URL: url, HOST, PORT, REDISCLI_AUTH: PASSWORD, QUESTION: words },
  });
};

const questions = {
  postgres: { write: "create table kept as select 'yes' as n", read: "select n from kept" },
  redis: { write: "SET kept yes", read: "GET kept" },
};

/** Everything of an addon that is in the cluster. */
async function leftOf({ serviceId, environmentId }: Addon): Promise<string[]> {
  const namespace = namespaceOf(namespacePrefix, environmentId);
  const labels = selector({ [label("serviceId")]: serviceId });
  const { StatefulSet, Service, Secret, NetworkPolicy, Pod } = kinds;
  const claims = { apiVersion: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims" };
  const all = [StatefulSet, Service, Secret, NetworkPolicy, Pod, claims];
  const pages = await Promise.all(all.map((kind) => kube.page(kind as typeof Pod, { namespace, labels })));
  return pages.flatMap(({ items }, at) => items.map(() => all[at]!.kind)).sort();
}

test.concurrent.each(["postgres", "redis"] as const)(
  "a %s addon answers to the keys it publishes, keeps its data, and is gone with it when it is deleted",
  async (type) => {
    const [addon, password] = [newAddon(type), newPassword()];
    await until("ready", addon, password);
    expect(keysOf(addon, password).HOST).toBe(
      `${addon.name}.${namespaceOf(namespacePrefix, addon.environmentId)}.svc`,
    );
    expect(await ask(addon, password, questions[type].write)).toMatchObject({ ok: true });
    expect((await ask(addon, newPassword(), questions[type].read)).said).toMatch(
      /password authentication failed|WRONGPASS|NOAUTH/,
    );
    const elsewhere = await ask(addon, password, questions[type].read, newId("env"));
    expect(elsewhere.ok).toBe(false);
    expect(elsewhere.said).not.toContain("yes");

    const namespace = namespaceOf(namespacePrefix, addon.environmentId);
    const before = await kube.get(kinds.Pod, `${nameOf(addon.serviceId)}-0`, namespace);
    expect(JSON.stringify(before)).not.toContain(password);
    await kube.remove(kinds.Pod, before!.metadata!.name!, namespace);
    await eventually("another server runs", async () => {
      const now = await kube.get(kinds.Pod, before!.metadata!.name!, namespace);
      return now && now.metadata?.uid !== before?.metadata?.uid && (await addons.status(addon))?.running;
    });
    expect(await ask(addon, password, questions[type].read)).toEqual({ ok: true, said: "yes" });

    const kinds6 = ["NetworkPolicy", "PersistentVolumeClaim", "Pod", "Secret", "Service", "StatefulSet"];
    expect(await leftOf(addon)).toEqual(kinds6);
    await addons.remove(addon);
    await addons.remove(addon);
    await eventually("nothing is left", async () => (await leftOf(addon)).length === 0);
  },
);

test.concurrent.each(["postgres", "redis"] as const)(
  "a new password of a %s addon ends the old one and keeps the data, and an older one is never brought back",
  async (type) => {
    const [addon, old, next] = [newAddon(type), newPassword(), newPassword()];
    await until("ready", addon, old);
    expect(await ask(addon, old, questions[type].write)).toMatchObject({ ok: true });
    const now = { ...addon, generation: 1 };
    expect(await addons.ensure(now, next)).toMatchObject({ state: "waiting" });
    await until("ready", now, next);
    expect(await ask(addon, next, questions[type].read)).toEqual({ ok: true, said: "yes" });
    expect((await ask(addon, old, questions[type].read)).ok).toBe(false);
    await expect(addons.ensure(addon, old)).rejects.toThrow(/newer password/);
    await eventually("the old Secret is gone", async () => {
      await addons.ensure(now, next);
      return (await leftOf(addon)).filter((kind) => kind === "Secret").length === 1;
    });
  },
);

test.concurrent("another size is other resources, and usage tells since when", async () => {
  const [addon, password] = [newAddon("redis"), newPassword()];
  const asked = Date.now();
  await until("ready", addon, password);
  const before = await eventually("it runs", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen;
  });
  expect(before).toMatchObject({ size: "nano", usage: [{ replicas: 1, size: "nano" }] });
  expect(before.usage[0]!.at).toBeGreaterThan(asked - 1_500);
  const small = { ...addon, size: "small" as const };
  await until("ready", small, password);
  const after = await eventually("it runs again", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen.size === "small" && seen;
  });
  expect(after.usage[0]!.at).toBeGreaterThan(before.usage[0]!.at);
  expect((await ask(addon, password, "CONFIG GET maxmemory")).said.split("\n").at(-1)).toBe(
    String(384 * 1024 * 1024),
  );
});

test.concurrent("an image that cannot be pulled and a volume that is not there are told, and are no end", async () => {
  const wrong = open({ images: { postgres: `${images.postgres}-none`, redis: `${images.redis}-none` } });
  const [addon, password] = [newAddon("redis"), newPassword()];
  expect(await until("failed", addon, password, wrong)).toMatchObject({
    message: expect.stringMatching(/image of its server, .*-none, cannot be pulled/),
  });
  const seen = await wrong.status(addon);
  expect(seen).toMatchObject({ running: false, problem: { state: "degraded" } });
  // The operator corrects the image of the set, and Berth keeps that.
  const namespace = namespaceOf(namespacePrefix, addon.environmentId);
  const correction = {
    metadata: { namespace, name: nameOf(addon.serviceId) },
    spec: { template: { spec: { containers: [{ ...(await containerOf(addon)), image: images.redis }] } } },
  };
  await kube.merge(kinds.StatefulSet, correction);
  await until("ready", addon, password, wrong);
  await wrong.stop();

  const placeless = open({ storage: { size: "64Mi", className: "no-such-class" } });
  const other = newAddon("postgres", addon.environmentId);
  expect(await until("failed", other, password, placeless)).toMatchObject({
    message: expect.stringContaining("volume is not there"),
  });
  await placeless.stop();
  await addons.remove(other);
});

async function containerOf({ serviceId, environmentId }: Addon) {
  const namespace = namespaceOf(namespacePrefix, environmentId);
  const set = await kube.get(kinds.StatefulSet, nameOf(serviceId), namespace);
  return set!.spec!.template.spec!.containers[0]!;
}

test.concurrent("a server that ends by itself is told with its last words", async () => {
  const [addon, password] = [newAddon("redis"), newPassword()];
  await until("ready", addon, password);
  expect((await ask(addon, password, "SHUTDOWN NOSAVE")).said).not.toContain("ERR");
  const namespace = namespaceOf(namespacePrefix, addon.environmentId);
  await eventually("it is back", async () => {
    const pod = await kube.get(kinds.Pod, `${nameOf(addon.serviceId)}-0`, namespace);
    const again = (pod?.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0;
    return again && (await addons.status(addon))?.running;
  });
});

test.concurrent("two deployers that make an addon at once make one, and a third finds it", async () => {
  const [addon, password, second] = [newAddon("postgres"), newPassword(), open()];
  const both = () => Promise.allSettled([addons.ensure(addon, password), second.ensure(addon, password)]);
  for (let round = 0; round < 3; round++) await both();
  await until("ready", addon, password);
  await until("ready", addon, password, second);
  expect((await leftOf(addon)).filter((kind) => kind === "StatefulSet")).toHaveLength(1);
  const third = open();
  expect(await third.status(addon)).toMatchObject({ serviceId: addon.serviceId, running: true });
  expect((await third.list()).map((one) => one.serviceId)).toContain(addon.serviceId);
  await third.remove({ serviceId: addon.serviceId, type: addon.type });
  expect((await leftOf(addon)).filter((kind) => kind !== "PersistentVolumeClaim")).toEqual([]);
  await Promise.all([second.stop(), third.stop()]);
});
