import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  ProjectDeletedSchema,
  ProjectRenamedSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
  ServiceRenamedSchema,
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { type Handler, on } from "../../../kit/events/handler.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import type { UsageKind } from "../segments.ts";
import type { Names, ServiceNames } from "./names.ts";
import { type ReportedUsage, recordUsage } from "./record-usage.ts";
import * as sql from "./sql.ts";

type Deps = { names: Names; now: () => number };
type Reported = MessageShape<DescMessage> & Omit<ReportedUsage, "kind" | "at"> & { at?: Timestamp };

/** Handlers of what the deployer reports: usage, and the names of what is used (docs/billing.md#usage). */
export function usageHandlers({ names, now }: Deps): Handler[] {
  const reported = (schema: DescMessage, kind: UsageKind): Handler =>
    on<DescMessage, ServiceNames | undefined>(schema, {
      prepare: (event) => names.find((event as Reported).serviceId),
      handle: async (tx, message, found) => {
        const event = message as Reported;
        if (!event.at) throw new Error(`${schema.name} of ${event.intervalId} has no time.`);
        await recordUsage(tx, { ...event, kind, at: timestampMs(event.at) }, now());
        if (found) await names.save(tx, event, found);
      },
    });
  return [
    reported(UsageStartedSchema, "start"),
    reported(UsageResizedSchema, "resize"),
    reported(UsageStoppedSchema, "stop"),
    reported(UsageHeartbeatSchema, "heartbeat"),
    on(ServiceCreatedSchema, async (tx, event) => {
      await sql.upsertService(tx, event);
    }),
    on(ServiceRenamedSchema, async (tx, event) => {
      await sql.upsertService(tx, event);
    }),
    on(ServiceDeletedSchema, async (tx, event) => {
      await sql.upsertService(tx, event);
      if (event.projectName) await sql.upsertProject(tx, event.projectId, event.projectName);
    }),
    on(ProjectRenamedSchema, nameProject),
    on(ProjectDeletedSchema, nameProject),
  ];
}

async function nameProject(tx: Tx, { projectId, name }: { projectId: string; name: string }): Promise<void> {
  await sql.upsertProject(tx, projectId, name);
}
