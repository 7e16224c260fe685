import { describe, expect, test } from "vitest";
import { imageArtifact } from "../../../../services/deployer/terms/artifact.ts";
import { RuntimeRefusal } from "../../../../services/deployer/terms/runtime-refusal.ts";
import { applyContract } from "./apply.ts";
import { crashContract } from "./crashes.ts";
import { openRuntime, type RuntimeHarness, releaseOf } from "./harness.ts";
import { hostContract } from "./hosts.ts";
import { logContract } from "./logs.ts";
import { measuringContract } from "./measuring.ts";
import { rollOverContract } from "./roll-over.ts";
import { runContract } from "./runs.ts";
import { scalingContract } from "./scaling.ts";

/** What every runtime guarantees. */
export function runtimeContract(name: string, open: () => Promise<RuntimeHarness>): void {
  describe(`runtime ${name}`, () => {
    const tools = openRuntime(open);
    applyContract(tools);
    rollOverContract(tools);
    crashContract(tools);
    scalingContract(tools);
    hostContract(tools);
    measuringContract(tools);
    logContract(tools);
    runContract(tools);
  });
}

/** For runtimes that cannot run images. */
export function imageRefusalContract(name: string, open: () => Promise<RuntimeHarness>): void {
  test(`runtime ${name} refuses an image with a sentence that a cluster is needed`, async () => {
    const { runtime, close } = await open();
    try {
      const release = releaseOf(imageArtifact("nginx:1"), "");
      const refusal = await runtime.apply(release).catch((error) => error);
      expect(refusal).toBeInstanceOf(RuntimeRefusal);
      expect(refusal).toMatchObject({ stage: "apply", code: "image_needs_cluster" });
      expect(refusal.message).toContain("cluster");
      expect(await runtime.status(release.serviceId)).toBeUndefined();
    } finally {
      await close();
    }
  });
}
