import type { V1NetworkPolicy } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { NetworkPolicy } from "../../../kube/kinds.ts";
import { environmentManifests } from "./namespace-manifests.ts";

const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };

const NETWORK = {
  ingressNamespaceLabels: [{ name: "ingress" }],
  ingressFromCidrs: [],
  egressExceptCidrs: ["10.0.0.0/8"],
  portRanges: false,
  closedPorts: [],
  metricsPeers: [],
  dnsPorts: [53],
  dnsPeers: [],
};

/** Returns whether an app may connect to a port of the internet. */
function isOpen(closedPorts: number[], protocol: string, port: number): boolean {
  const network = { ...NETWORK, portRanges: closedPorts.length > 0, closedPorts };
  const options = { namespacePrefix: "berth", claimsNamespace: "builds", network, quota: {} };
  const rules = environmentManifests(environment, options)
    .filter(({ kind }) => kind === NetworkPolicy)
    .flatMap(({ object }) => (object as V1NetworkPolicy).spec?.egress ?? []);
  return rules
    .filter(({ to }) => to?.some(({ ipBlock }) => ipBlock))
    .some(
      ({ ports }) =>
        ports === undefined ||
        ports.some((one) => {
          const from = one.port as number;
          return one.protocol === protocol && from <= port && port <= (one.endPort ?? from);
        }),
    );
}

test.each([
  // For networks that ignore ranges of ports: there, closing one would close all.
  { closed: [], shut: [], dns: [] },
  { closed: [25, 465, 587], shut: [25, 53, 465, 587], dns: [53] },
  { closed: [587, 25, 26, 25, 1, 65_535], shut: [1, 25, 26, 53, 587, 65_535], dns: [53] },
])("apps reach every port of the internet except $shut of TCP and $dns of UDP", ({ closed, shut, dns }) => {
  const probed = [1, 2, 24, 25, 26, 27, 52, 53, 54, 443, 464, 465, 466, 586, 587, 588, 65_534, 65_535];
  expect(probed.filter((port) => !isOpen(closed, "TCP", port))).toEqual(shut);
  expect(probed.filter((port) => !isOpen(closed, "UDP", port))).toEqual(dns);
});

test("whoever scrapes reaches the pods that ask for it, and nobody does unless the operator says who", () => {
  const policiesFor = (metricsPeers: object[]) => {
    const options = { namespacePrefix: "berth", claimsNamespace: "builds", quota: {} };
    return environmentManifests(environment, { ...options, network: { ...NETWORK, metricsPeers } })
      .filter(({ object }) => object.metadata?.name === "metrics")
      .map(({ object }) => (object as V1NetworkPolicy).spec);
  };
  const peers = [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } }];
  expect(policiesFor([])).toEqual([]);
  expect(policiesFor(peers)).toEqual([
    {
      podSelector: { matchLabels: { "berth.dev/kind": "app", "berth.dev/metrics": "scraped" } },
      policyTypes: ["Ingress"],
      ingress: [{ _from: peers }],
    },
  ]);
});

test("the ingress controller reaches no pods of private services", () => {
  const options = { namespacePrefix: "berth", claimsNamespace: "builds", network: NETWORK, quota: {} };
  const [policy, ...others] = environmentManifests(environment, options)
    .map(({ object }) => (object as V1NetworkPolicy).spec)
    .filter((spec) => spec?.ingress?.some(({ _from }) => _from?.some((peer) => peer.namespaceSelector)));
  expect(others).toEqual([]);
  expect(policy?.podSelector?.matchExpressions).toEqual([
    { key: "berth.dev/access", operator: "NotIn", values: ["private"] },
  ]);
});

test("the ingress controller reaches what answers a certificate authority, where domains get certificates", () => {
  const reachedBy = (issuer?: string) =>
    environmentManifests(environment, {
      ...{ namespacePrefix: "berth", claimsNamespace: "builds", network: NETWORK, quota: {} },
      hosts: { issuer, redirectAnnotations: {} },
    })
      .map(({ object }) => (object as V1NetworkPolicy).spec)
      .filter((spec) => spec?.ingress?.some(({ _from }) => _from?.some((peer) => peer.namespaceSelector)))
      .map((spec) => Object.keys(spec?.podSelector?.matchLabels ?? {}));
  expect(reachedBy()).toEqual([["berth.dev/kind"]]);
  expect(reachedBy("letsencrypt")).toEqual([["berth.dev/kind"], ["acme.cert-manager.io/http01-solver"]]);
});

test("only pods that copy addons reach the object store, by the cluster's DNS", () => {
  const rule = { ports: [{ port: 7070, protocol: "TCP" }], to: [{ podSelector: {} }] };
  const reaching = (copiesTo?: (typeof rule)[]) =>
    environmentManifests(environment, {
      ...{ namespacePrefix: "berth", claimsNamespace: "builds", quota: {} },
      network: { ...NETWORK, copiesTo },
    })
      .map(({ object }) => (object as V1NetworkPolicy).spec)
      .filter((spec) => JSON.stringify(spec?.egress ?? []).includes("7070"));
  expect(reaching()).toEqual([]);
  expect(reaching([rule])).toMatchObject([
    { podSelector: { matchLabels: { "berth.dev/kind": "copy" } }, egress: [{ to: NETWORK.dnsPeers }, rule] },
  ]);
});

test("the deployer reaches the ports of addons, where it has a namespace", () => {
  const within = (serviceAccount?: { namespace: string; name: string }) => {
    const options = { namespacePrefix: "berth", claimsNamespace: "builds", quota: {}, network: NETWORK };
    const given = { ...options, ...(serviceAccount && { serviceAccount }) };
    const found = environmentManifests(environment, given).find(
      ({ object }) => object.metadata?.name === "within",
    );
    return (found!.object as V1NetworkPolicy).spec!.ingress;
  };
  const neighbours = { _from: [{ podSelector: {} }] };
  expect(within()).toEqual([neighbours]);
  const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": "platform" } };
  const podSelector = { matchLabels: { "app.kubernetes.io/component": "deployer" } };
  const ports = [5432, 6379].map((port) => ({ port, protocol: "TCP" }));
  expect(within({ namespace: "platform", name: "berth-deployer" })).toEqual([
    neighbours,
    { _from: [{ namespaceSelector, podSelector }], ports },
  ]);
});
