import { expect, test } from "vitest";
import { podStatus } from "../../../../../test/support/kube-api/served.ts";
import type { Given, Stored } from "../../../../../test/support/kube-api/store.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { Deployment, Pod } from "../../../kube/kinds.ts";
import { actAs } from "../../../testing/testing.ts";
import { placeOf } from "./testing.ts";
import { atRest, running, startDeployer } from "./testing-run.ts";

/** docs/scale.md#calls-of-a-deployment: two more when the new Deployment is reported before it is read again. */
const CALLS = 16 + 2;
const KINDS = ["deployments", "pods", "replicasets", "services", "ingresses", "secrets", "configmaps"];

test("a deployment of a service that runs takes 16 calls to the cluster, or 18, until it runs alone", async () => {
  const { api, platform, options } = await running(1, { compareMs: 3_600_000 });
  await startDeployer(platform, options);
  await atRest(platform);
  await eventually("all was compared", async () => api.calls.some(({ plural }) => plural === "secrets"));
  const scope = { ...Pod, namespace: "many-env-0" };
  const set = (pod: Given | Stored, phase: Parameters<typeof podStatus>[1]) =>
    api.store.put(scope, { ...pod, status: podStatus(pod, phase) } as Given);
  const is = (what: string, sql: string) =>
    eventually(what, async () => {
      const { rowCount } = await platform.pool.query(
        `select from services s join deployments d on d.service_id = s.id and d.version = s.live_version
           join work w on w.service_id = s.id
         where s.id = 'svc_0_0' and d.version = 3 and w.lease_owner is null and w.next_at is null and ${sql}`,
      );
      return rowCount === 1;
    });
  const from = api.calls.length;
  const { accountId, ...place } = placeOf(0);
  const { deployments } = actAs(platform.port, accountId);
  await deployments.deploy({ accountId, ...place, service: "web0", image: "example.test/web:3" });
  await is("it is applied", "d.status = 'applied'");
  const { spec } = api.store.find({ ...Deployment, namespace: "many-env-0" }, "web0") as unknown as {
    spec: { template: Given };
  };
  const { metadata, ...template } = spec.template;
  const made = set({ kind: "Pod", ...template, metadata: { ...metadata, name: "web0-next" } }, "pending");
  await is("it is starting", "s.runtime_state = 'starting'");
  set(set(made, "running"), "ready");
  await is("it is healthy", "d.healthy_at is not null");
  api.store.remove(scope, "web-svc_0_0");
  await is("it runs alone", "s.runtime_state = 'running'");
  const calls = api.calls.slice(from).filter(({ plural, namespace }) => namespace && KINDS.includes(plural));
  expect(calls.length, calls.map(({ verb, plural }) => `${verb} ${plural}`).join()).toBeLessThanOrEqual(
    CALLS,
  );
});
