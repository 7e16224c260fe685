import type { KubernetesObject } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { Refusal } from "../../../../test/support/kube-api/store.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { connectKube, type Kind } from "../client.ts";
import { ConfigMap, HTTPRoute } from "../kinds.ts";
import { type Informer, reconnectPause, startInformer } from "./informer.ts";

const SCOPE = { apiVersion: "v1", plural: "configmaps", namespace: "shop" };
let api: KubeApi;
let informer: Informer<unknown> | undefined;
let seen: string[];
let logged: string[];
let drawn: number;

beforeEach(async () => {
  api = await startKubeApi();
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "shop" } });
  [informer, seen, logged, drawn] = [undefined, [], [], 0];
});
afterEach(async () => {
  await informer?.stop();
  await api.stop();
});

type WithData = KubernetesObject & { data?: Record<string, string> };

function follow(kind: Kind<WithData> = ConfigMap): Informer<unknown> {
  const note = (object: object, message: string) => void logged.push(`${message} ${JSON.stringify(object)}`);
  informer = startInformer(connectKube(api.config), kind, {
    namespace: "shop",
    labels: "app=web",
    log: { info: note, warn: note, error: note },
    changed: ({ metadata, data }, gone) =>
      void seen.push(gone ? `-${metadata?.name}` : `${metadata?.name}=${data?.v}`),
    random: () => {
      drawn++;
      return 0;
    },
  });
  return informer;
}

const put = (name: string, v: string) =>
  api.store.put(SCOPE, { metadata: { name, labels: { app: "web" } }, data: { v } });
const count = (verb: string) => api.calls.filter((call) => call.verb === verb).length;
const lastWatch = () => api.watches()[0]?.from;
const isWatched = (times: number) =>
  eventually("it watches", async () => count("watch") >= times && api.watches().length === 1);
const saw = (what: string) => eventually(`${what} is seen`, async () => seen.includes(what));

describe("a watch", () => {
  test("that the server ends resumes at its last change, without a list", async () => {
    put("one", "1");
    await follow().synced;
    await isWatched(1);
    const { resourceVersion } = put("one", "2").metadata;
    await saw("one=2");
    api.endWatches();
    put("one", "3");
    await saw("one=3");
    await isWatched(2);
    expect(lastWatch()).toBe(resourceVersion);
    expect(count("list")).toBe(1);
    expect(seen).toEqual(["one=1", "one=2", "one=3"]);
  });

  test("shows what holds characters that some take for the end of a line", async () => {
    const held = "a\u2028b\u2029c\u0085d";
    put("one", held);
    await follow().synced;
    expect(seen).toEqual([`one=${held}`]);
    await isWatched(1);
    put("two", held);
    await saw(`two=${held}`);
    expect(logged).toEqual([]);
  });

  test("of which nothing has changed resumes at the bookmark, however far others have gone on", async () => {
    await follow().synced;
    await isWatched(1);
    api.store.put({ ...SCOPE, plural: "secrets" }, { metadata: { name: "elsewhere" } });
    api.store.compact();
    const version = String(api.store.version());
    api.bookmark();
    put("one", "1");
    await saw("one=1");
    api.store.remove(SCOPE, "one");
    await saw("-one");
    api.bookmark();
    api.endWatches();
    await isWatched(2);
    expect(Number(lastWatch())).toBeGreaterThan(Number(version));
    expect(count("list")).toBe(1);
  });

  test("whose connection breaks resumes as well, and the log says why", async () => {
    await follow().synced;
    await isWatched(1);
    put("one", "1");
    await saw("one=1");
    api.endWatches(true);
    put("two", "1");
    await saw("two=1");
    expect(count("list")).toBe(1);
    expect(logged.join()).toContain("a watch failed");
  });

  test.each(["as an event", "as the answer"])(
    "whose version is too old, reported %s, lists anew",
    async (how) => {
      put("one", "1");
      put("two", "1");
      await follow().synced;
      await isWatched(1);
      api.beforeEach(async ({ verb }) => {
        if (verb !== "watch") return;
        api.beforeEach(() => {});
        put("one", "2");
        api.store.remove(SCOPE, "two");
        api.store.compact();
        if (how === "as the answer") throw new Refusal(410, "too old resource version");
      });
      api.endWatches();
      await saw("one=2");
      await saw("-two");
      expect(count("list")).toBe(2);
      expect(logged).toEqual([]);
      put("three", "1");
      await saw("three=1");
    },
  );

  test("is for labels, and reads long lists in pages", async () => {
    api.store.put(SCOPE, { metadata: { name: "another" } });
    for (let n = 0; n < 1_200; n++) put(`many-${n}`, "1");
    const { objects, synced } = follow();
    await synced;
    expect(objects.size).toBe(1_200);
    expect(count("list")).toBe(3);
  });
});

test("what cannot be read is not empty: it is neither synced nor forgotten, and the log says which and why", async () => {
  put("one", "1");
  let refuses = true;
  api.beforeEach(({ verb }) => {
    if (refuses && verb !== "get") throw new Refusal(403, "configmaps is forbidden");
  });
  const { objects, synced, tried, isSynced } = follow();
  await tried;
  expect([isSynced(), objects.size, seen]).toEqual([false, 0, []]);
  await eventually("it is tried again", async () => count("list") > 3);
  expect(isSynced()).toBe(false);
  expect(logged).toHaveLength(1);
  expect(logged[0]).toMatch(/"namespace":"shop".*ConfigMap/);
  refuses = false;
  await synced;
  await isWatched(1);
  put("one", "2");
  await saw("one=2");
  expect(logged.at(-1)).toContain("watched again");
  refuses = true;
  api.store.compact();
  const tries = count("watch");
  api.endWatches();
  await eventually("it is tried again", async () => count("watch") > tries + 2);
  expect(objects.size).toBe(1);
  expect(seen).toEqual(["one=1", "one=2"]);
});

test("a kind that the cluster may lack has no objects where it is gone, and is watched again when it is back", async () => {
  const routes = { apiVersion: HTTPRoute.apiVersion, plural: HTTPRoute.plural, namespace: "shop" };
  const putRoute = () => api.store.put(routes, { metadata: { name: "one", labels: { app: "web" } } });
  api.unknown.add(HTTPRoute.plural);
  await follow(HTTPRoute).synced;
  await eventually("it was tried again", async () => count("watch") > 2);
  expect(logged).toHaveLength(1);
  putRoute();
  api.unknown.clear();
  await saw("one=undefined");
  await isWatched(1);
  api.unknown.add(HTTPRoute.plural);
  api.endWatches();
  await saw("-one");
});

test("watches that end together come back spread over a span that grows with each failure, and has an end", async () => {
  expect([0, 1, 2, 3, 4, 5, 6, 50].map((failures) => reconnectPause(failures, () => 1))).toEqual([
    1_000, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
  ]);
  expect(reconnectPause(3, () => 0.25)).toBe(1_000);
  await follow().synced;
  await isWatched(1);
  expect(drawn).toBe(0);
  api.endWatches();
  await isWatched(2);
  expect(drawn).toBe(1);
});
