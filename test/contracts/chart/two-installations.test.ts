import type { V1Service } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { configOf, helmProgram, type Manifest, ofKind, render, renderAs } from "./render.ts";

const SECOND = { release: "berth-staging", namespace: "platform" };

/** Returns what an object is called in the cluster. */
const nameOf = ({ kind, metadata }: Manifest) => {
  const { namespace = "", name } = metadata as unknown as { namespace?: string; name: string };
  return `${kind} ${namespace}/${name}`;
};

describe.skipIf(!helmProgram)("two installations in one cluster", () => {
  let one: Manifest[];

  beforeAll(async () => {
    one = await render("bundled", { "uninstall.removeApps": "true" });
  });

  test.each(["platform", "another"])("share no object, the second in namespace %s", async (namespace) => {
    const set = { "uninstall.removeApps": "true" };
    const two = await renderAs({ release: "berth-staging", namespace }, "bundled", set);
    const names = new Set(one.map(nameOf));
    expect(two.map(nameOf).filter((name) => names.has(name))).toEqual([]);
  });

  test("have environments, builds and rights of their own", async () => {
    const two = await renderAs(SECOND, "bundled");
    const [first, second] = [configOf(one, "berth-deployer"), configOf(two, "berth-staging-deployer")];
    for (const name of [
      ...["KUBE_NAMESPACE_PREFIX", "KUBE_BUILD_NAMESPACE", "KUBE_ENVIRONMENT_ROLE", "KUBE_SERVICE_ACCOUNT"],
      ...["S3_ENDPOINT", "REGISTRY_PUSH", "VARIABLES_URL", "DATABASE_URL"],
    ])
      expect([name, second[name]]).not.toEqual([name, first[name]]);
    // No namespace of the one begins as those of the other do.
    expect(second.KUBE_NAMESPACE_PREFIX?.startsWith(`${first.KUBE_NAMESPACE_PREFIX}-env-`)).toBe(false);
    const policy = ofKind(two, "ValidatingAdmissionPolicy").map((object) => JSON.stringify(object));
    expect(policy.length).toBeGreaterThan(0);
    expect(policy.join()).toContain('metadata.labels[variables.installation] == \\"berth-staging-builds\\"');
  });

  test("pull from registries of their own, once the second has a port of its own", async () => {
    const apart = { "registry.nodePort": "30501" };
    const two = await renderAs(SECOND, "bundled", apart);
    const ports = ofKind<V1Service>(two, "Service").flatMap(({ spec }) =>
      spec!.ports!.flatMap(({ nodePort }) => nodePort ?? []),
    );
    expect(ports).toEqual([30501]);
    expect(configOf(two, "berth-staging-deployer").REGISTRY_PULL).toBe("localhost:30501");
  });
});
