import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { createLog } from "../../../../kit/log.ts";
import { connectKube } from "../../../kube/client.ts";
import { Job, Secret } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import { createJobRuns, toRunStatus } from "./job-runs.ts";

let api: Awaited<ReturnType<typeof startKubeApi>>;
beforeAll(async () => {
  api = await startKubeApi();
});
afterAll(() => api?.stop());

test("two processes that start a run make one Job, with its variables in a Secret of it, which no Service selects", async () => {
  const log = createLog("test", "silent");
  const kube = connectKube(api.config);
  const options = manyOptions({ kube, log });
  const runsOf = () => createJobRuns(options, createEnvironments(options));
  const env = { TOKEN: "hush-hush" };
  const run = {
    name: "release-dep-1",
    release: { ...release, env },
    command: "migrate",
    deadlineSeconds: 900,
  };
  await Promise.all([runsOf().start(run), runsOf().start(run)]);
  const { items: jobs } = await kube.list(Job);
  expect(jobs.map(({ metadata }) => metadata?.name)).toEqual([run.name]);
  const [job] = jobs;
  expect(job!.spec).toMatchObject({ backoffLimit: 0, activeDeadlineSeconds: 900 });
  expect(JSON.stringify(job)).not.toContain("hush-hush");
  const labels = job!.spec!.template.metadata!.labels!;
  expect(labels).toMatchObject({ "berth.dev/kind": "app", "berth.dev/run": run.name });
  expect(labels["berth.dev/service"]).toBeUndefined();
  const secret = await kube.get(Secret, run.name, job!.metadata!.namespace);
  expect(secret?.data?.TOKEN).toBe(Buffer.from("hush-hush").toString("base64"));
  expect(secret?.metadata?.ownerReferences).toMatchObject([{ kind: "Job", uid: job!.metadata!.uid }]);

  const place = { name: run.name, serviceId: release.serviceId, environmentId: release.environmentId };
  expect(await runsOf().status(place)).toMatchObject({ state: "running" });
  expect(await runsOf().status({ ...place, name: "release-dep-2" })).toBeUndefined();
  await runsOf().remove(place);
  expect(await runsOf().status(place)).toBeUndefined();
});

const ended = (exitCode: number, reason = "Error") =>
  ({ status: { containerStatuses: [{ state: { terminated: { exitCode, reason } } }] } }) as V1Pod;
const is = (type: string, reason?: string) => ({
  status: { conditions: [{ type, reason, status: "True" }] },
});

test.each([
  ["none of its pods is known", is("Failed", "BackoffLimitExceeded"), undefined, { state: "lost" }],
  ["it exited", is("Failed"), ended(3), { state: "failed", exitCode: 3 }],
  ["it succeeded, and its pod is gone", is("Complete"), undefined, { state: "succeeded", exitCode: 0 }],
  ["its time is over", is("Failed", "DeadlineExceeded"), undefined, { state: "failed" }],
  ["its memory is used up", is("Failed"), ended(137, "OOMKilled"), { state: "failed", exitCode: 137 }],
  ["its pod has ended, and the Job does not say so yet", {}, ended(0), { state: "running" }],
])("how a run stands when %s", (_, job, pod, status) => {
  expect(toRunStatus(job as never, pod)).toMatchObject(status);
});
