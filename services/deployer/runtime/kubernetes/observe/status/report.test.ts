import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../../test/support/kube-api/server.ts";
import type { Given } from "../../../../../../test/support/kube-api/store.ts";
import { eventually } from "../../../../../kit/testing/testing.ts";
import { connectKube } from "../../../../kube/client.ts";
import { Pod } from "../../../../kube/kinds.ts";
import type { RuntimeStatus } from "../../../port.ts";
import { manyOptions, manyReleases, storeRunning } from "../../many/testing.ts";
import { createEnvironments } from "../../namespace/namespaces.ts";
import { createKubernetesRuntime } from "../../runtime.ts";
import { pod } from "../testing.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test("a replica that becomes ready is reported at once, though time alone would change its status later", async () => {
  const api = await startKubeApi();
  stops.push(api.stop);
  const log = { info() {}, warn() {}, error: console.error };
  const options = manyOptions({ kube: connectKube(api.config), log });
  const [release] = manyReleases(1, 1);
  storeRunning(api, [release!], options);
  const runtime = createKubernetesRuntime(options, createEnvironments(options));
  stops.push(runtime.stop);
  await runtime.start();
  const reported: RuntimeStatus[] = [];
  runtime.watch((status) => void reported.push(status));
  const put = (given: Parameters<typeof pod>[1]) => {
    const object = pod("svc_0_0", { of: release!, made: 0, ...given });
    const { metadata, ...rest } = JSON.parse(JSON.stringify(object)) as Given;
    api.store.put({ ...Pod, namespace: "many-env-0" }, { kind: "Pod", metadata, ...rest });
  };
  const state = () => reported.at(-1)?.state;
  // By a node's clock that is ahead: only in an hour will it have been starting for too long.
  const started = { running: { startedAt: new Date(Date.now() + 3_600_000) } };
  put({ state: started, restarts: 1 });
  await eventually("it is starting", async () => state() === "starting");
  put({ state: started, restarts: 1, readySince: 60 });
  await eventually("it runs", async () => state() === "running");
  expect(reported.at(-1)).toMatchObject({ serviceId: "svc_0_0", available: 1, restarts: 1 });
});
