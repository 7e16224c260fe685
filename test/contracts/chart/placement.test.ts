import { describe, expect, test } from "vitest";
import { jobBuilderOptions } from "../../../services/deployer/builder/job/config.ts";
import { runtimeOptions } from "../../../services/deployer/engine/kubernetes.ts";
import { type Placement, placementFields } from "../../../services/deployer/kube/pods/placement.ts";
import { helmProgram, ofKind, podsOf, readDeployerConfig, render } from "./render.ts";

/** Returns a placement of which everything differs from another's. */
const on = (pool: string): Placement => ({
  nodeSelector: { pool },
  tolerations: [{ key: "pool", operator: "Equal", value: pool, effect: "NoSchedule" }],
  affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
  priorityClassName: `${pool}-priority`,
  runtimeClassName: `${pool}-runtime`,
});

const deployerConfig = async (set: Record<string, string>) =>
  readDeployerConfig(await render("bundled", set));

describe.skipIf(!helmProgram)("where pods may run", () => {
  test("the platform's placement holds for every pod of the chart, and for nothing else", async () => {
    const set = { "placement.platform": JSON.stringify(on("platform")), "uninstall.removeApps": "true" };
    const pods = podsOf(await render("bundled", set));
    // Six processes, four servers, two operations; the preparation, the removal and the tests.
    expect(pods.length).toBeGreaterThanOrEqual(15);
    for (const { name, spec } of pods)
      expect([name, spec]).toEqual([name, expect.objectContaining(on("platform"))]);
    const config = await deployerConfig(set);
    expect([config.appsPlacement, config.builderPlacement]).toEqual([{}, {}]);
  });

  test("what a process or a server has of its own comes before the platform's", async () => {
    const pods = podsOf(
      await render("bundled", {
        "placement.platform": JSON.stringify(on("platform")),
        "processes.gateway.nodeSelector": '{"pool":"edge"}',
        "database.server.nodeSelector": '{"pool":"disks"}',
      }),
    );
    const selectors = Object.fromEntries(pods.map(({ name, spec }) => [name, spec.nodeSelector]));
    expect(selectors["Deployment/berth-gateway"]).toEqual({ pool: "edge" });
    expect(selectors["StatefulSet/berth-postgres"]).toEqual({ pool: "disks" });
    expect(selectors["Deployment/berth-identity"]).toEqual({ pool: "platform" });
    const gateway = pods.find(({ name }) => name === "Deployment/berth-gateway");
    expect(gateway?.spec.tolerations).toEqual(on("platform").tolerations);
  });

  test("apps and builds have a placement each, on nodes of one architecture", async () => {
    const config = await deployerConfig({
      "placement.apps": JSON.stringify({ ...on("apps"), tolerations: [] }),
      "placement.builds": JSON.stringify(on("builds")),
      "placement.arch": '"arm64"',
    });
    // What is empty is left out, as the API leaves it out of what it returns.
    const { tolerations: _, ...apps } = on("apps");
    expect(config.appsPlacement).toEqual(apps);
    expect(config.nodeArchitecture).toBe("arm64");
    const nodeSelector = { pool: "builds", "kubernetes.io/arch": "arm64" };
    expect(jobBuilderOptions(config).placement).toEqual({ ...on("builds"), nodeSelector });
  });

  test("apps of a plan run where it says besides, and those of another plan do not", async () => {
    const config = await deployerConfig({
      "placement.apps": JSON.stringify(on("apps")),
      "placement.plans": JSON.stringify({
        free: {
          runtimeClassName: "gvisor",
          nodeSelector: { tier: "free" },
          tolerations: on("free").tolerations,
        },
      }),
      "placement.arch": '"arm64"',
      "billing.defaultTier": '"pro"',
    });
    const { placementOf } = runtimeOptions(config, {} as Parameters<typeof runtimeOptions>[1]).apps;
    const nodeSelector = { pool: "apps", "kubernetes.io/arch": "arm64" };
    expect(placementOf?.("free")).toEqual({
      ...on("apps"),
      runtimeClassName: "gvisor",
      nodeSelector: { ...nodeSelector, tier: "free" },
      tolerations: [...on("apps").tolerations!, ...on("free").tolerations!],
    });
    for (const tier of ["pro", "team", undefined])
      expect(placementOf?.(tier)).toEqual({ ...on("apps"), nodeSelector });
    for (const wrong of ["[]", '{"gold":{}}', '{"free":{"nodeName":"a"}}'])
      expect(() => placementFields.planPlacement.parse(wrong)).toThrow("by plan (free, pro");
  });

  test("unless one is named, it is the architecture of the platform's image", async () => {
    const { nodeArchitecture } = await deployerConfig({});
    expect(nodeArchitecture).toBe({ x64: "amd64" }[process.arch as string] ?? process.arch);
  });

  test("the deployer's account carries the identity that a cloud knows it by", async () => {
    const annotations = { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/berth" };
    const set = { "serviceAccount.annotations": JSON.stringify(annotations) };
    const accounts = ofKind(await render("bundled", set), "ServiceAccount");
    const annotated = accounts.filter(
      ({ metadata }) => metadata!.annotations?.["eks.amazonaws.com/role-arn"],
    );
    expect(annotated.map(({ metadata }) => metadata)).toMatchObject([
      { name: "berth-deployer", annotations },
    ]);
  });

  test.each([
    [
      "an architecture of apps alone",
      { "placement.apps": '{"nodeSelector":{"kubernetes.io/arch":"arm64"}}' },
      "set placement.arch instead",
    ],
    [
      "an architecture of a plan",
      { "placement.plans": '{"free":{"nodeSelector":{"kubernetes.io/arch":"arm64"}}}' },
      "set placement.arch instead",
    ],
    ["a placement of a plan that there is not", { "placement.plans": '{"gold":{}}' }, "gold"],
    [
      "a member that there is not",
      { "placement.builds": '{"nodeSelectors":{}}' },
      "'nodeSelectors' not allowed",
    ],
    [
      "a toleration of nothing",
      { "placement.apps": '{"tolerations":[{"efect":"NoSchedule"}]}' },
      "'efect' not allowed",
    ],
    ["an older version's values", { placement: "null", serviceAccount: "null" }, "--reset-then-reuse-values"],
  ])("%s is refused", async (_what, set, sentence) => {
    await expect(render("bundled", set)).rejects.toThrow(sentence);
  });
});
