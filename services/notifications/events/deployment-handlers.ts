import {
  DeploymentFailedSchema,
  DeploymentQueuedSchema,
  DeploymentSupersededSchema,
  VariableDanglingSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ServiceDescription } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { placeOf, type ServiceNotice } from "../notices/service-notice.ts";
import { reasonText, titleText } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handlers of what becomes of deployments. */
export function deploymentHandlers({ announce, serviceNotice }: Deps): Handler[] {
  return [
    announce(DeploymentFailedSchema, async (event) =>
      listed(await serviceNotice("deploy.failed", event, (service) => failed(service, event.version))),
    ),

    announce(DeploymentSupersededSchema, async (event) =>
      listed(
        await serviceNotice("deploy.superseded", event, (service) => ({
          title: `Deployment ${event.version} of ${service.serviceName} was superseded`,
          body: `A newer deployment of ${placeOf(service)} began before version ${event.version} was live.`,
        })),
      ),
    ),

    announce(DeploymentQueuedSchema, async (event) => {
      if (event.rollbackOf === 0) return [];
      return listed(
        await serviceNotice("deploy.rolled_back", event, (service) => ({
          title: `Rollback of ${service.serviceName} to version ${event.rollbackOf}`,
          body: `Deployment ${event.version} brings back what version ${event.rollbackOf} of ${placeOf(service)} ran, with the variables of today.`,
        })),
      );
    }),

    announce(VariableDanglingSchema, async (event) => {
      const { serviceId, name, reason, revision } = event;
      const words = (service: ServiceDescription) => ({
        title: `${name} of ${service.serviceName} does not resolve`,
        body: `${placeOf(service)} gets no ${name}: ${DANGLING[reason] ?? "what it refers to is missing"}. Set ${name} again, or bring back what it refers to.`,
      });
      const notice = await serviceNotice(
        "deploy.config_dangling",
        event,
        words,
        `${serviceId}:${name}:${revision}`,
      );
      return listed(notice && { ...notice, metadata: { ...notice.metadata, variable: name, reason } });
    }),
  ];
}

function failed(service: ServiceDescription, version: number): Pick<Notice, "title" | "body"> {
  const { errorStage = "", errorCode = "", errorMessage = "" } = service.deployment ?? {};
  const deployment = `Deployment ${version} of ${service.serviceName}`;
  const keeps = service.servingVersion
    ? `Version ${service.servingVersion} keeps running.`
    : "Nothing of it runs yet.";
  if (errorCode === "canceled")
    return { title: `${deployment} was canceled`, body: `${placeOf(service)}: ${keeps}` };
  const reason = reasonText(errorMessage);
  const stage = errorStage && ` in ${errorStage}`;
  const inShort = titleText(reason);
  return {
    title: `${deployment} failed${stage}${inShort && `: ${inShort}`}`,
    body: `${placeOf(service)}: ${reason} ${keeps} Mend the cause, then deploy again.`,
  };
}

const DANGLING: Record<string, string> = {
  service_not_found: "the service that it connects to does not exist",
  service_not_addon: "the service that it connects to is no addon",
  key_not_found: "the addon that it connects to has no such key",
  alias_target_not_found: "the variable that it is an alias of does not exist",
  alias_target_dangling: "the variable that it is an alias of does not resolve",
  alias_cycle: "it is an alias of itself, over others",
  alias_depth_exceeded: "its chain of aliases is too long",
};

function listed(notice: Notice | undefined): Notice[] {
  return notice ? [notice] : [];
}
