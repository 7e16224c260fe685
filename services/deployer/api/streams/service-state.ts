import { create } from "@bufbuild/protobuf";
import {
  type EnvironmentEvent,
  EnvironmentEventSchema,
  type ServiceState,
  ServiceStateSchema,
} from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { keepText } from "../../../kit/rpc/json/unary-json.ts";
import { serviceStatus } from "../../projects/service-status.ts";
import { isDeployable } from "../../terms/services.ts";
import type { ShownRow } from "./environment-sql.ts";

export type SetEvent = EnvironmentEvent & { event: { case: "set"; value: ServiceState } };

/** Returns the event with what an environment shows of a service or an addon (docs/streams.md#environments). */
export function toSetEvent(row: ShownRow): SetEvent {
  const {
    id,
    name,
    type,
    staged,
    url,
    createdAt,
    pendingChanges,
    credentialsRotatedAt,
    release,
    deployment,
    runs,
  } = row;
  const { status, statusMessage, suspended } = serviceStatus(row);
  const value = create(ServiceStateSchema, {
    ...{ id, name, type, status, statusMessage, suspended, pendingChanges, staged, createdAt, runs },
    url: url ?? undefined,
    credentialsRotatedAt: credentialsRotatedAt ?? undefined,
    backupsRevision: row.backupsRevision ?? undefined,
    release: release ?? undefined,
    deployment: deployment ? { ...deployment, createdAt: row.deploymentCreatedAt ?? undefined } : undefined,
    replicas: isDeployable(type) ? replicasOf(row) : { wanted: 1, available: status === "running" ? 1 : 0 },
  });
  return keepText(create(EnvironmentEventSchema, { event: { case: "set", value } })) as SetEvent;
}

/** Before a process of this version has recorded how many replicas answer, a release that runs has all. */
function replicasOf({ release, wanted, available, runtimeState }: ShownRow) {
  if (!release) return { wanted, available: 0 };
  return { wanted, available: available ?? (runtimeState === "running" ? wanted : 0) };
}
