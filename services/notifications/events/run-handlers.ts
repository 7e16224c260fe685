import { type RunEnded, RunEndedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import { endText } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** The handler of runs that ended: it announces when those of a schedule begin to fail, and when they no longer do. */
export function runHandler({ announce, serviceNotice }: Deps): Handler {
  return announce(RunEndedSchema, async (event): Promise<Notice[]> => {
    const { accountId, serviceId, runId, trigger, status, previousFailed } = event;
    const failed = status !== "succeeded";
    if (trigger !== "schedule" || failed === previousFailed) return [];
    const notice = await serviceNotice(
      failed ? "job.failed" : "job.recovered",
      { accountId, serviceId },
      (service) => (failed ? failing(service, event) : recovered(service)),
      runId,
    );
    return notice ? [{ ...notice, metadata: { ...notice.metadata, runId } }] : [];
  });
}

type Service = Parameters<typeof qualifiedNameOf>[0];

const failing = (service: Service, event: RunEnded) => ({
  title: `A scheduled run of ${service.serviceName} failed`,
  body: `${qualifiedNameOf(service)}: ${endText(event)} Further failures are not announced until a scheduled run succeeds.`,
});

const recovered = (service: Service) => ({
  title: `Scheduled runs of ${service.serviceName} succeed again`,
  body: `A scheduled run of ${qualifiedNameOf(service)} succeeded, after one that failed.`,
});
