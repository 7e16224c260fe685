import type { V1Pod } from "@kubernetes/client-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, Pod } from "../../../kube/kinds.ts";
import { explainPull, tryPull } from "./pull-trial.ts";

const HEAD = 'Head "http://localhost:30500/v2/apps/test/manifests/none"';
const failed = (why: string) =>
  `failed to pull and unpack image "localhost:30500/apps/test:none": failed to resolve reference "localhost:30500/apps/test:none": ${why}`;

const pod = (message?: string, reason = "ErrImagePull"): V1Pod => ({
  metadata: { name: "trial", labels: { trial: "yes" } },
  spec: { nodeName: "node-1", containers: [] },
  status: {
    phase: "Pending",
    containerStatuses: [
      {
        ...{ name: "pull", image: "", imageID: "", ready: false, restartCount: 0 },
        state: { waiting: { reason, message } },
      },
    ],
  },
});

test.each([
  [
    "nothing listens on localhost, as with kube-proxy in nftables mode",
    failed(`failed to do request: ${HEAD}: dial tcp 127.0.0.1:30500: connect: connection refused`),
    "localhost:30500",
    /^The node node-1 does not reach .* at localhost:30500: kube-proxy in nftables or IPVS mode.*mode to iptables.*registry\.bundled: false\)\.$/,
  ],
  [
    "nothing answers at the operator's name",
    failed("dial tcp 10.0.0.9:30500: i/o timeout"),
    "registry.internal:30500",
    /^The node node-1 does not reach .* at registry\.internal:30500: correct registry\.pull, or use your own/,
  ],
  [
    "its runtime wants TLS",
    failed("http: server gave HTTP response to HTTPS client"),
    "localhost:30500",
    /^The node node-1 expects TLS .* plain HTTP there, or use your own registry/,
  ],
  [
    "the registry asks for a login",
    failed("pull access denied, repository does not exist or may require authorization"),
    "localhost:30500",
    /^reached$/,
  ],
  [
    "the registry asks another runtime for a login",
    "reading manifest none: unauthorized: authentication required",
    "localhost:30500",
    /^reached$/,
  ],
  [
    "the registry answers 401",
    failed(`unexpected status from HEAD request to ${HEAD}: 401 Unauthorized`),
    "localhost:30500",
    /^reached$/,
  ],
])("of a node where %s, it is said", (_what, message, host, expected) => {
  expect(explainPull(pod(message), host)).toMatch(expected);
});

test("a pod that has not tried yet says nothing", () => {
  for (const waiting of [undefined, pod(), pod("ContainerCreating"), { ...pod(), status: {} }])
    expect(explainPull(waiting, "localhost:30500")).toBeUndefined();
});

let api: KubeApi;
beforeEach(async () => {
  api = await startKubeApi();
  api.store.put(Namespace, { metadata: { name: "berth" } });
});
afterEach(() => api.stop());

test("the trial waits until a node has tried, and says what it waits for when none does", async () => {
  const trial = { host: "localhost:30500", namespace: "berth", labels: "trial=yes" };
  const put = (one: V1Pod) => api.store.put({ ...Pod, namespace: "berth" }, JSON.parse(JSON.stringify(one)));
  const kube = connectKube(api.config);
  await expect(tryPull(kube, trial, 0)).rejects.toThrow(
    "(no pod was created): `kubectl get events -n berth`",
  );
  put(pod(undefined, "ContainerCreating"));
  await expect(tryPull(kube, trial, 0)).rejects.toThrow("(ContainerCreating)");
  const tried = tryPull(kube, trial);
  put(pod(failed("pull access denied, repository does not exist or may require authorization")));
  await tried;
});
