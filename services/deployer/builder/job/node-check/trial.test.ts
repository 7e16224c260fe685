import type { V1Pod } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { explainStart } from "./trial.ts";

const waiting = (reason: string, message?: string): V1Pod => ({
  status: {
    phase: "Pending",
    containerStatuses: [
      {
        name: "build",
        image: "",
        imageID: "",
        ready: false,
        restartCount: 0,
        state: { waiting: { reason, message } },
      },
    ],
  },
});

test.each<[string, V1Pod | undefined, string]>([
  ["is not made", undefined, "The cluster makes no pods for builds: `kubectl get events -n builds` says why"],
  [
    "finds no node",
    {
      status: {
        conditions: [
          { type: "PodScheduled", status: "False", message: "0/3 nodes are available: 3 had taints" },
        ],
      },
    },
    "No node takes the pods of builds: 0/3 nodes are available: 3 had taints. See placement.builds",
  ],
  [
    "misses a profile",
    waiting("CreateContainerError", "cannot load seccomp profile"),
    "The pods of builds do not start: CreateContainerError: cannot load seccomp profile",
  ],
  [
    "asks for a user namespace that the node cannot make",
    { spec: { hostUsers: false, containers: [] }, ...waiting("ContainerCreating") },
    "(ContainerCreating): `kubectl get events -n builds` says why. User namespaces need containerd 2",
  ],
  [
    "is slow",
    { status: { containerStatuses: [{ state: { running: {} } } as never] } },
    "The trial build took too long",
  ],
])("of a build whose pod %s, the reason is reported in a sentence", (_what, pod, sentence) => {
  expect(explainStart(pod, "builds")).toContain(sentence);
});
