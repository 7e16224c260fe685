import type { V1Deployment } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { findDrift } from "../observe/drift/drift.ts";
import { at, options, release } from "../observe/testing.ts";
import { usageNow } from "../observe/usage.ts";
import { withLiveReplicas } from "./autoscaler.ts";
import { manifestsOf } from "./manifests.ts";
import { isApplied, nextState } from "./next-state.ts";
import { readState, withAnnotations } from "./release-annotations.ts";

const autoscaling = { min: 2, max: 5, targetCpuPercent: 70 };
const scaled = { ...release, autoscaling, replicas: 2 };

/** The Deployment of a release once it is applied; `replicas` is what the autoscaler made of it. */
function applied(own: typeof scaled, replicas: number): V1Deployment {
  const seen = { metadata: { name: "web", namespace: "n", uid: "u", resourceVersion: "1" } };
  const state = nextState(own, manifestsOf(own, options), undefined, at(0));
  const sent = withAnnotations(seen, state);
  return { ...sent, spec: { ...sent.spec!, replicas } };
}

test("an autoscaler's target is a share of the size, and not of what is reserved of it", () => {
  const { autoscaler, deployment } = manifestsOf(scaled, options);
  expect(autoscaler).toMatchObject({
    scaleTargetRef: { kind: "Deployment", name: "web" },
    ...{ minReplicas: 2, maxReplicas: 5 },
    metrics: [{ resource: { name: "cpu", target: { type: "AverageValue", averageValue: "175m" } } }],
  });
  expect(deployment.replicas).toBeUndefined();
  const large = manifestsOf(
    { ...scaled, size: "large", autoscaling: { ...autoscaling, targetCpuPercent: 100 } },
    options,
  );
  expect(large.autoscaler?.metrics?.[0]?.resource?.target.averageValue).toBe("2");
  expect(manifestsOf(release, options)).not.toHaveProperty("autoscaler");
});

test("what is sent keeps the number that the autoscaler decided on, within the bounds", () => {
  const live = applied(scaled, 4);
  const state = readState(live)!;
  expect(state.release.replicas).toBe(4);
  expect(withAnnotations(live, state).spec?.replicas).toBe(4);
  expect(withLiveReplicas(scaled, live).replicas).toBe(4);
  expect(withLiveReplicas(scaled, applied(scaled, 9)).replicas).toBe(5);
  expect(
    withLiveReplicas({ ...scaled, replicas: 1 }, { spec: { ...live.spec!, replicas: 0 } }).replicas,
  ).toBe(2);
  const { autoscaling: _, ...fixed } = scaled;
  expect(withLiveReplicas({ ...fixed, replicas: 1 }, live).replicas).toBe(1);
});

test("neither applying again nor comparing changes what the autoscaler decided; without it there is drift", () => {
  const live = applied(scaled, 4);
  const before = readState(live)!;
  const own = withLiveReplicas(scaled, live);
  expect(isApplied(live, before, nextState(own, manifestsOf(own, options), before, at(9)))).toBe(true);
  const observed = [{ deployment: live, recorded: before, pods: [] }];
  const { service, ingress, autoscaler } = before.manifests;
  const seen = {
    service: new Map([["web", { spec: service! }]]),
    ingress: new Map([["web", { metadata: { annotations: {} }, spec: ingress!.spec }]]),
    httpRoute: new Map(),
  };
  const withOne = { ...seen, autoscaler: new Map([["web", { spec: autoscaler! }]]) };
  expect([...findDrift(withOne, observed, options)]).toEqual([]);
  expect([...findDrift({ ...seen, autoscaler: new Map() }, observed, options)]).toEqual(["svc_1"]);
  const other = { ...autoscaler!, maxReplicas: 50 };
  expect([
    ...findDrift({ ...seen, autoscaler: new Map([["web", { spec: other }]]) }, observed, options),
  ]).toEqual(["svc_1"]);
});

test("usage counts the replicas that run, up to the number that the autoscaler decided on", () => {
  const live = applied(scaled, 4);
  const recorded = readState(live)!;
  const template = recorded.manifests.deployment.template.metadata?.annotations?.["berth.dev/template"];
  const pod = (uid: string) => ({
    ...{
      name: uid,
      uid,
      version: 2,
      revision: 5,
      size: "nano" as const,
      template: template!,
      createdAt: at(0),
    },
    ...{ over: false, filledDisk: false, readyAt: at(5), restarts: 0, ended: false },
  });
  const seen = { deployment: live, recorded, pods: ["a", "b", "c"].map(pod) };
  expect(usageNow(seen, at(60)).at(-1)).toMatchObject({ replicas: 3, size: "nano" });
});
