import { afterAll, beforeAll, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { Ingress, Secret } from "../../kube/kinds.ts";
import { namespaceOf } from "../../kube/names.ts";
import { certificateName, hostObjectName } from "./release/hosts.ts";
import { type Cluster, openCluster } from "./testing.ts";

const HOST = "shop.example.com";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await openCluster("hosts");
});
afterAll(() => cluster?.close());

test("a host's Ingress names its issuer and its Secret, is issued once that is there, and goes with the service", async () => {
  const hosts = { issuer: "nobody", redirectAnnotations: {} };
  const runtime = await cluster.another({ hosts });
  const one = releaseOf(cluster.artifact, answeringApp);
  await runtime.apply(one);
  await statusOf(runtime, one.serviceId, isRunning);
  const set = () => runtime.setHosts(one.serviceId, [{ host: HOST }]);
  expect(await set()).toEqual([{ host: HOST, certificate: "pending" }]);
  const namespace = namespaceOf(cluster.options.namespacePrefix, one.environmentId);
  const name = hostObjectName(HOST);
  const secretName = certificateName(name);
  const found = () => cluster.kube.list(Ingress, { namespace });
  const ingressOf = async () => (await found()).items.find(({ metadata }) => metadata?.name === name);
  expect(await ingressOf()).toMatchObject({
    metadata: { annotations: { "cert-manager.io/cluster-issuer": "nobody" } },
    spec: { tls: [{ hosts: [HOST], secretName }] },
  });
  const data = { "tls.crt": "", "tls.key": "" };
  await cluster.kube.apply(Secret, {
    metadata: { name: secretName, namespace },
    type: "kubernetes.io/tls",
    data,
  });
  expect(await set()).toEqual([{ host: HOST, certificate: "issued" }]);
  await cluster.kube.remove(Ingress, name, namespace);
  await eventually("it is noticed", async () => (await runtime.status(one.serviceId))?.drifted);
  await runtime.apply(one);
  expect(await ingressOf()).toBeDefined();
  await runtime.remove(one.serviceId);
  expect(await ingressOf()).toBeUndefined();
  const secrets = await cluster.kube.listMetadata(Secret, { namespace, labels: "" });
  expect(secrets.map((secret) => secret.name)).not.toContain(secretName);
});
