import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../../../../kit/process/free-port.ts";
import { openProxy } from "../../../../kit/testing/proxy.ts";
import { type ServiceProcess, serviceProcess } from "../../../../kit/testing/service-process.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { enqueue } from "../../../due/sql.ts";
import { atRest, ofApps, running, stops } from "./testing-run.ts";

test("of two deployers one watches and decides, and the other takes over when that one hangs or is killed", async () => {
  const { api, platform } = await running(2);
  const env = { ...platform.env, PLAN_QUOTAS: "off", KUBE_API: api.url };
  const main = join(import.meta.dirname, "testing-deployer.ts");
  const ports = [platform.port, await freePort()];
  const [one, other] = ports.map((port) =>
    serviceProcess({ main, env: { ...env, PORT: String(port) }, port }),
  ) as [ServiceProcess, ServiceProcess];
  stops.push(
    () => one.end("SIGKILL"),
    () => other.end("SIGKILL"),
  );
  const areWatched = (kinds: number) =>
    eventually("one of them watches", async () => api.watches().length === kinds);
  const scope = { apiVersion: "apps/v1", plural: "deployments", namespace: "many-env-1" };
  const areApplied = (...names: string[]) =>
    eventually(`${names} are applied again`, async () => names.every((name) => api.store.find(scope, name)));
  await one.run();
  await areWatched(7);
  await atRest(platform);
  await other.run();
  expect(api.watches()).toHaveLength(7);
  expect(ofApps(api.writes())).toEqual([]);
  // Both report what waits: there may be no leader.
  for (const port of ports) {
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    for (const name of ["berth_services_overdue_seconds", "berth_builds_waiting"])
      expect(metrics).toMatch(new RegExp(`^${name}(\\{.*\\})? \\d`, "m"));
  }

  // It hangs in the midst of a step, under a lease that would last.
  const resume = Promise.withResolvers<void>();
  let asked = 0;
  api.beforeEach(({ verb, plural, name }) => {
    if (verb === "get" && plural === "deployments" && name === "web2" && ++asked === 1) return resume.promise;
  });
  api.store.remove(scope, "web2");
  await enqueue(platform.pool, ["svc_1_2"]);
  await eventually("a service is in hand", async () => asked > 0);
  const lengthened = await platform.pool.query(
    "update work set lease_until = now() + interval '1 hour' where service_id = 'svc_1_2' and lease_owner is not null",
  );
  expect(lengthened.rowCount).toBe(1);
  process.kill(one.pid()!, "SIGSTOP");
  api.store.remove(scope, "web0");
  await areApplied("web0", "web2");
  resume.resolve();
  process.kill(one.pid()!, "SIGCONT");
  await areWatched(7);
  expect((await fetch(`http://127.0.0.1:${platform.port}/readyz?exclude=events`)).status).toBe(200);
  await other.end("SIGKILL");
  api.store.remove(scope, "web1");
  await areApplied("web1");
  await areWatched(7);
});

test("a leader that can no longer reach the cluster steps down for a deployer that can", async () => {
  const { api, platform } = await running(2);
  const way = await openProxy(new URL(api.url));
  stops.push(async () => way.shut());
  const main = join(import.meta.dirname, "testing-deployer.ts");
  const [cutOff, other] = [
    { port: platform.port, kubeApi: way.of(api.url) },
    { port: await freePort(), kubeApi: api.url },
  ].map(({ port, kubeApi }) => {
    const env = { ...platform.env, PLAN_QUOTAS: "off", KUBE_API: kubeApi, PORT: String(port) };
    return serviceProcess({ main, env, port });
  }) as [ServiceProcess, ServiceProcess];
  for (const one of [cutOff, other]) stops.push(() => one.end("SIGKILL"));
  await cutOff.run();
  await atRest(platform);
  await other.run();
  way.hang("kept");
  const scope = { apiVersion: "apps/v1", plural: "deployments", namespace: "many-env-1" };
  const isApplied = (name: string) =>
    eventually(`${name} is applied again`, async () => api.store.find(scope, name) !== undefined);
  api.store.remove(scope, "web0");
  await isApplied("web0");

  // It campaigns again once it can.
  way.goOn("kept");
  await other.end("SIGKILL");
  api.store.remove(scope, "web1");
  await isApplied("web1");
});
