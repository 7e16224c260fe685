import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  ReleaseHealthySchema,
  ReleaseRecoveredSchema,
  ReleaseUnhealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ServiceDescription } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { dropResolvedFailures } from "../digests/sql.ts";
import { afterReport, type HealthReport } from "../incidents/incident.ts";
import * as sql from "../incidents/sql.ts";
import type { Notice, Notify } from "../notices/notify.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import { reasonText } from "../notices/text.ts";

type Deps = { notify: Notify; serviceNotice: ServiceNotice };
type HealthEvent = { serviceId: string; version: number; at?: Timestamp };
type Content = Pick<Notice, "title" | "body">;

/** Handlers of the health of releases (docs/notifications.md#incidents). */
export function healthHandlers({ notify, serviceNotice }: Deps): Handler[] {
  /** Returns a handler of a service's health; events about a deleted service are ignored. */
  function health<S extends DescMessage>(
    schema: S,
    prepare: (event: MessageShape<S>) => Promise<Notice | undefined>,
    handle: (tx: Tx, event: MessageShape<S>, notice: Notice) => Promise<void>,
  ): Handler {
    return on<S, Notice | undefined>(schema, {
      prepare,
      handle: async (tx, event, notice) => {
        if (notice) await handle(tx, event, notice);
      },
    });
  }

  async function recordReport(
    tx: Tx,
    event: HealthEvent,
    report: Omit<HealthReport, "at">,
    notice: Notice,
  ): Promise<void> {
    const { serviceId, at } = event;
    const known = await sql.lockIncident(tx, serviceId);
    const { incident, notify: isNew } = afterReport(known, {
      ...report,
      at: at ? timestampMs(at) : Date.now(),
    });
    if (incident !== known) await sql.setIncident(tx, serviceId, incident);
    if (isNew) await notify(tx, { ...notice, dedupe: `${serviceId}:${incident.openedAt}` });
  }

  return [
    health(
      ReleaseHealthySchema,
      (event) => serviceNotice("deploy.ready", event, (service) => ready(service, event)),
      async (tx, event, notice) => {
        await dropResolvedFailures(tx, event);
        await notify(tx, notice);
        await recordReport(tx, event, { healthy: true, quiet: true }, notice);
      },
    ),
    health(
      ReleaseUnhealthySchema,
      (event) => serviceNotice("deploy.unhealthy", event, (service) => unhealthy(service, event)),
      (tx, event, notice) => recordReport(tx, event, { healthy: false }, notice),
    ),
    health(
      ReleaseRecoveredSchema,
      (event) => serviceNotice("deploy.recovered", event, (service) => recovered(service, event)),
      (tx, event, notice) => recordReport(tx, event, { healthy: true, quiet: event.firstHealthy }, notice),
    ),
  ];
}

function ready(service: ServiceDescription, { version }: HealthEvent): Content {
  return {
    title: `${service.serviceName} is live with version ${version}`,
    body: `Version ${version} of ${qualifiedNameOf(service)} is healthy${service.url && ` at ${service.url}`}.`,
  };
}

function unhealthy(service: ServiceDescription, event: HealthEvent & { code: string }): Content {
  const { serviceName, servingVersion, deployment } = service;
  const { version, code } = event;
  const why = reasonText(deployment?.rolloutMessage || code.replaceAll("_", " "));
  const next = "See its logs for details; deploy a working version, or roll back.";
  if (deployment?.wasHealthy)
    return {
      title: `${serviceName} is unhealthy`,
      body: `Version ${version} of ${qualifiedNameOf(service)}: ${why} ${next}`,
    };
  const keeps =
    servingVersion && servingVersion !== version ? ` Version ${servingVersion} keeps running.` : "";
  return {
    title: `Version ${version} of ${serviceName} does not become healthy`,
    body: `${qualifiedNameOf(service)}: ${why}${keeps} ${next}`,
  };
}

function recovered(service: ServiceDescription, { version }: HealthEvent): Content {
  return {
    title: `${service.serviceName} has recovered`,
    body: `Version ${version} of ${qualifiedNameOf(service)} is healthy again.`,
  };
}
