import { afterAll, beforeAll, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../../../kube/client.ts";
import { at, ended, pod, seen } from "../testing.ts";
import { createCrashOutput } from "./crash-output.ts";
import { podFacts } from "./pod-facts.ts";

let api: KubeApi;
beforeAll(async () => {
  api = await startKubeApi();
});
afterAll(() => api?.stop());

const line = (second: number, message: string) => `${new Date(at(second) + 500).toISOString()} ${message}`;
const crashed = pod("crashed", { state: ended(2, 4) });

/** What a deployer that is just started tells. */
function output(): Promise<string> {
  const observation = seen([crashed]);
  const deployment = { ...observation.deployment, metadata: { name: "web", namespace: "berth-env-1" } };
  return createCrashOutput(connectKube(api.config))({ ...observation, deployment }, podFacts(crashed));
}

test("what a container wrote is told also when it was restarted since its end was seen", async () => {
  api.podLogs.set("web-crashed", [line(3, "no settings")]);
  expect(await output()).toBe("It wrote:\nno settings");
  api.podLogs.set("web-crashed before", [line(3, "no settings")]);
  for (const now of [[], [line(6, "starting")]]) {
    api.podLogs.set("web-crashed", now);
    expect(await output()).toBe("It wrote:\nno settings");
  }
});

test("what an earlier container wrote is not taken for the output of one that wrote nothing", async () => {
  api.podLogs.set("web-crashed", []);
  api.podLogs.set("web-crashed before", [line(0, "before")]);
  expect(await output()).toBe("It wrote nothing.");
  api.podLogs.delete("web-crashed before");
  expect(await output()).toBe("It wrote nothing.");
});
