import { DomainActivatedSchema, DomainFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import { timeKey } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handlers of what becomes of domains (docs/domains.md#states). */
export function domainHandlers({ announce, serviceNotice }: Deps): Handler[] {
  return [
    announce(DomainActivatedSchema, async ({ accountId, serviceId, domainId, host, at }) => {
      const notice = await serviceNotice(
        "domain.active",
        { accountId, serviceId },
        (service) => ({
          title: `${host} is served`,
          body: `${qualifiedNameOf(service)} answers at ${host}.`,
        }),
        `${domainId}:${timeKey(at)}`,
      );
      return about(notice, { domainId, host });
    }),

    announce(DomainFailedSchema, async ({ accountId, serviceId, domainId, host, reason, at }) => {
      const notice = await serviceNotice(
        "domain.failed",
        { accountId, serviceId },
        (service) => ({
          title: `The domain ${host} failed`,
          body: `${host} of ${qualifiedNameOf(service)}: ${reason}`,
        }),
        `${domainId}:${timeKey(at)}`,
      );
      return about(notice, { domainId, host });
    }),
  ];
}

const about = (notice: Notice | undefined, more: Record<string, string>): Notice[] =>
  notice ? [{ ...notice, metadata: { ...notice.metadata, ...more } }] : [];
