import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { toJobState } from "./job-state.ts";

const job: V1Job = { metadata: { name: "bld-1" } };
const podWith = (status: V1Pod["status"]): V1Pod => ({ status });
const terminated = (state: object, rest: object = {}) =>
  podWith({
    phase: "Failed",
    ...rest,
    containerStatuses: [{ state: { terminated: state } }],
  } as V1Pod["status"]);

describe("how far a build is", () => {
  test("what the program said last counts, however its container ended", () => {
    const end = { failure: { stage: "detect", code: "runtime_not_detected", message: "Nothing." } };
    const pod = terminated({ exitCode: 1, reason: "OOMKilled", message: JSON.stringify(end) });
    expect(toJobState(job, pod, true)).toEqual({ is: "ended", end });
  });

  test("too much memory and too much disk are the source's; a node that needs its room back is not", () => {
    const codeOf = (pod: V1Pod) => {
      const state = toJobState(job, pod, true);
      return state.is === "ended" && ("failure" in state.end ? state.end.failure.code : "tried again");
    };
    expect(codeOf(terminated({ exitCode: 137, reason: "OOMKilled" }))).toBe("out_of_memory");
    const own = "Pod ephemeral local storage usage exceeds the total limit of containers 5Gi.";
    expect(codeOf(podWith({ phase: "Failed", reason: "Evicted", message: own }))).toBe("disk_full");
    const node = "The node was low on resource: memory.";
    expect(codeOf(podWith({ phase: "Failed", reason: "Evicted", message: node }))).toBe("tried again");
    expect(codeOf(terminated({ exitCode: 255, reason: "Unknown" }, { reason: "NodeLost" }))).toBe(
      "tried again",
    );
    expect(
      codeOf(terminated({ exitCode: 143, reason: "DeadlineExceeded" }, { reason: "DeadlineExceeded" })),
    ).toBe("build_timeout");
  });

  test("a deadline is the build's when it ran, and the cluster's when it never did", () => {
    const late: V1Job = {
      status: { conditions: [{ type: "Failed", status: "True", reason: "DeadlineExceeded" }] },
    };
    const codeOf = (ran: boolean) => JSON.stringify(toJobState(late, undefined, ran));
    expect(codeOf(true)).toContain("build_timeout");
    expect(codeOf(false)).toContain("builder_unavailable");
  });

  test("says why a builder does not start", () => {
    const unschedulable = [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }];
    expect(toJobState(job, podWith({ phase: "Pending", conditions: unschedulable }), false)).toEqual({
      is: "waiting",
      why: "no node has room for it",
    });
    const waiting = { state: { waiting: { reason: "ImagePullBackOff" } } };
    const pulling = podWith({ phase: "Pending", containerStatuses: [waiting] } as V1Pod["status"]);
    expect(toJobState(job, pulling, false)).toEqual({
      is: "waiting",
      why: "the builder's image cannot be pulled",
    });
  });

  test("a Job or pod that is no more is worth another try", () => {
    expect(toJobState(undefined, undefined, true)).toMatchObject({ end: { broken: expect.any(String) } });
    const failed: V1Job = {
      status: { conditions: [{ type: "Failed", status: "True", reason: "BackoffLimitExceeded" }] },
    };
    expect(toJobState(failed, undefined, true)).toMatchObject({ end: { broken: expect.any(String) } });
    expect(toJobState(job, undefined, false)).toEqual({ is: "waiting" });
  });
});
