import type { V1Secret } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Namespace, Secret } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { PULL_SECRET } from "../../services/deployer/runtime/kubernetes/release/manifests.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

const MINUTES = 60_000;

let world: Platform;
let kube: Kube;
beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

/** Returns the logins with which nodes pull in an environment. */
async function authsIn(environmentId: string): Promise<Record<string, { auth: string }>> {
  const labels = selector({ [label("environment")]: environmentId });
  const [namespace] = (await kube.list(Namespace, { labels })).items;
  const secret = await kube.get<V1Secret>(Secret, PULL_SECRET, namespace?.metadata?.name);
  return JSON.parse(Buffer.from(secret?.data?.[".dockerconfigjson"] ?? "", "base64").toString()).auths;
}

test(
  "a login for a registry is in the namespaces of its account, until it is deleted",
  async () => {
    const { E, S, environmentId } = await world.environment();
    const registry = { host: "registry.example.com", user: "ci", token: "a-token" };
    const { id } = await world.must<{ id: string }>("POST", `${world.A}/registries`, registry);
    const config = { minReadySeconds: 0, command: "sleep 100000" };
    await world.must("POST", `${E}/services`, { name: "jobs", type: "worker", config });
    await world.must("POST", `${S("jobs")}/deploy`, { image: inject("clusterImages").node });
    await settled(world, S("jobs"), 1);
    const auth = Buffer.from("ci:a-token").toString("base64");
    const before = await authsIn(environmentId);
    expect(before["registry.example.com"]).toEqual({ auth });

    await world.must("PATCH", `${world.A}/registries/${id}`, { token: "another" });
    const next = Buffer.from("ci:another").toString("base64");
    await eventually(
      "nodes have the new token",
      async () => (await authsIn(environmentId))["registry.example.com"]?.auth === next,
    );
    await world.must("DELETE", `${world.A}/registries/${id}`);
    const { "registry.example.com": _, ...others } = before;
    const left = await eventually("nodes have none", async () => {
      const auths = await authsIn(environmentId);
      return auths["registry.example.com"] === undefined && auths;
    });
    expect(left).toEqual(others);
  },
  6 * MINUTES,
);
