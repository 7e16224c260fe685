import type { Given } from "../../support/kube-api/store.ts";

type Members = Record<string, unknown>;

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns an object as large as an API server's: with who set which field, and with what nodes say of a pod. */
export function asServed(given: Given): Given {
  const object = given.kind === "Pod" ? { ...given, status: podStatus(given.status as Members) } : given;
  const { metadata, status, ...rest } = object;
  const managedFields = [
    entry("berth", { metadata: { labels: metadata.labels, annotations: metadata.annotations }, ...rest }),
    ...(status ? [{ ...entry("kubelet", { status }), subresource: "status" }] : []),
  ];
  return { ...object, metadata: { ...metadata, managedFields } };
}

function entry(manager: string, fields: Members) {
  const [operation, time] = ["Apply", "2026-01-01T00:00:00Z"];
  return { manager, operation, apiVersion: "v1", time, fieldsType: "FieldsV1", fieldsV1: pathsOf(fields) };
}

/** Returns the names of all fields, nested as the API nests them. */
function pathsOf(fields: Members): Members {
  const paths = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    paths.map(([name, value]) => {
      if (Array.isArray(value))
        return [
          `f:${name}`,
          Object.fromEntries(
            value.map((one, at) => [
              `k:{"name":"${at}"}`,
              { ".": {}, ...(isMembers(one) ? pathsOf(one) : {}) },
            ]),
          ),
        ];
      return [`f:${name}`, isMembers(value) ? pathsOf(value) : {}];
    }),
  );
}

/** Adds what a node reports besides what decides. */
function podStatus(status: Members): Members {
  const [containers, conditions] = [status.containerStatuses, status.conditions] as Members[][];
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const others = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"];
  const address = "10.244.17.201";
  return {
    ...status,
    conditions: [
      ...(conditions ?? []),
      ...others.map((type) => ({ type, status: "True", lastProbeTime: null, lastTransitionTime })),
    ],
    containerStatuses: containers?.map((one) => ({
      ...one,
      image: "example.test/web:2",
      imageID: `example.test/web@sha256:${"0".repeat(64)}`,
      containerID: `containerd://${"0".repeat(64)}`,
      started: true,
    })),
    hostIP: "10.0.14.117",
    hostIPs: [{ ip: "10.0.14.117" }],
    podIP: address,
    podIPs: [{ ip: address }],
    qosClass: "Burstable",
    startTime: lastTransitionTime,
  };
}
