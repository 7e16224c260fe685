import type { V1NetworkPolicy } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { NetworkPolicy } from "../../../kube/kinds.ts";
import { environmentManifests } from "./namespace-manifests.ts";

const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };

/** Returns whether an app may connect to a port of the internet. */
function isOpen(closedPorts: number[], protocol: string, port: number): boolean {
  const network = {
    ingressNamespaceLabels: [],
    ingressFromCidrs: [],
    egressExceptCidrs: ["10.0.0.0/8"],
    portRanges: closedPorts.length > 0,
    closedPorts,
    dnsPorts: [53],
    dnsPeers: [],
  };
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
