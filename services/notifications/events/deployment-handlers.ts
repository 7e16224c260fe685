import {
  DeploymentFailedSchema,
  DeploymentQueuedSchema,
  DeploymentSupersededSchema,
  VariableDanglingSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ServiceDescription } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import { reasonText, titleText } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handlers of outcomes of deployments. */
export function deploymentHandlers({ announce, serviceNotice }: Deps): Handler[] {
  return [
    announce(DeploymentFailedSchema, async (event) =>
      asList(await serviceNotice("deploy.failed", event, (service) => failed(service, event.version))),
    ),

    announce(DeploymentSupersededSchema, async (event) =>
      asList(
        await serviceNotice("deploy.superseded", event, (service) => ({
          title: `Deployment ${event.version} of ${service.serviceName} was superseded`,
          body: `A newer deployment of ${qualifiedNameOf(service)} started before version ${event.version} was live.`,
        })),
      ),
    ),

    announce(DeploymentQueuedSchema, async (event) => {
      if (event.rollbackOf === 0) return [];
      return asList(
        await serviceNotice("deploy.rolled_back", event, (service) => ({
          title: `Rollback of ${service.serviceName} to version ${event.rollbackOf}`,
          body: `Deployment ${event.version} restores what version ${event.rollbackOf} of ${qualifiedNameOf(service)} ran, with the current variables.`,
        })),
      );
    }),

    announce(VariableDanglingSchema, async (event) => {
      const { serviceId, name, reason, revision } = event;
      const content = (service: ServiceDescription) => ({
        title: `${name} of ${service.serviceName} does not resolve`,
        body: `${qualifiedNameOf(service)} does not receive ${name}: ${DANGLING[reason] ?? "its target is missing"}. Set ${name} again, or restore its target.`,
      });
      const notice = await serviceNotice(
        "deploy.config_dangling",
        event,
        content,
        `${serviceId}:${name}:${revision}`,
      );
      return asList(notice && { ...notice, metadata: { ...notice.metadata, variable: name, reason } });
    }),
  ];
}

function failed(service: ServiceDescription, version: number): Pick<Notice, "title" | "body"> {
  const { errorStage = "", errorCode = "", errorMessage = "" } = service.deployment ?? {};
  const deployment = `Deployment ${version} of ${service.serviceName}`;
  const keeps = service.servingVersion
    ? `Version ${service.servingVersion} keeps running.`
    : "No version is running yet.";
  if (errorCode === "canceled")
    return { title: `${deployment} was canceled`, body: `${qualifiedNameOf(service)}: ${keeps}` };
  const reason = reasonText(errorMessage);
  const stage = errorStage && ` in ${errorStage}`;
  const summary = titleText(reason);
  return {
    title: `${deployment} failed${stage}${summary && `: ${summary}`}`,
    body: `${qualifiedNameOf(service)}: ${reason} ${keeps} Fix the cause, then deploy again.`,
  };
}

const DANGLING: Record<string, string> = {
  service_not_found: "the service that it connects to does not exist",
  service_not_addon: "the service that it connects to is not an addon",
  key_not_found: "the addon that it connects to has no such key",
  alias_target_not_found: "the variable that it is an alias of does not exist",
  alias_target_dangling: "the variable that it is an alias of does not resolve",
  alias_cycle: "it is an alias of itself through other aliases",
  alias_depth_exceeded: "its chain of aliases is too long",
};

function asList(notice: Notice | undefined): Notice[] {
  return notice ? [notice] : [];
}
