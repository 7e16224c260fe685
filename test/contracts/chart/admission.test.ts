import type { V1ValidatingAdmissionPolicy } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { helmProgram, ofKind, render } from "./render.ts";

/** Returns what the policy of the builds' namespace asks of pods; undefined when there is none. */
async function rulesOfBuilds(set: Record<string, string> = {}): Promise<string | undefined> {
  const policies = ofKind<V1ValidatingAdmissionPolicy>(
    await render("bundled", set),
    "ValidatingAdmissionPolicy",
  );
  const found = policies.find(({ metadata }) => metadata!.name === "platform-berth-builds");
  return found && JSON.stringify(found.spec!.validations!.map(({ expression }) => expression));
}

// What the rules refuse and admit is asked of a cluster: test/cluster/permissions.cluster.test.ts.
describe.skipIf(!helmProgram)("the admission policy of builds", () => {
  test("follows the settings of builds", async () => {
    expect(await rulesOfBuilds()).not.toContain("SYS_ADMIN");
    const inNamespaces = await rulesOfBuilds({ "builds.userNamespaces": "true" });
    // With these rights only in a user namespace of its own.
    expect(inNamespaces).toContain("SYS_ADMIN");
    expect(inNamespaces).toContain("variables.pod.?hostUsers == optional.of(false)");
    expect(await rulesOfBuilds({ "builds.seccompProfile": '"build.json"' })).toContain("build.json");
    expect(await rulesOfBuilds({ "builds.appArmorProfile": '"of-builds"' })).toContain("of-builds");
  });

  test("can be left out, and never binds the pods of the platform", async () => {
    expect(await rulesOfBuilds({ "builds.admissionPolicy": "false" })).toBeUndefined();
    const shared = { "builds.namespace": '"platform"', "builds.createNamespace": "false" };
    expect(await rulesOfBuilds(shared)).toBeUndefined();
  });
});
