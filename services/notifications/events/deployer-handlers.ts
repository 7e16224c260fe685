import { type Client, Code, ConnectError } from "@connectrpc/connect";
import {
  DeploymentFailedSchema,
  DeploymentQueuedSchema,
  DeploymentSupersededSchema,
  ReleaseHealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type {
  InternalService,
  ServiceDescription,
} from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { KindKey } from "../catalog/kinds.ts";
import { audienceOf, type Directory } from "../notices/recipients.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; deployer: Client<typeof InternalService>; directory: Directory };
type Event = { accountId: string; serviceId: string; version: number };
type Words = { title: string; body: string };

/** Handlers of the deployer's events. What is deleted by the time of the event is not worth telling. */
export function deployerHandlers({ announce, deployer, directory }: Deps): Handler[] {
  async function toNotice(
    kind: KindKey,
    { accountId, serviceId, version }: Event,
    words: (about: ServiceDescription) => Words,
  ) {
    const about = await deployer.describeService({ serviceId, version }).catch(undefinedIfGone);
    if (!about) return undefined;
    const { members } = await directory.account(accountId);
    return {
      kind,
      accountId,
      ...words(about),
      metadata: metadataOf(about, serviceId, version),
      dedupe: `${serviceId}:${version}`,
      recipients: audienceOf(kind, members),
    };
  }

  return [
    announce(ReleaseHealthySchema, (event) =>
      toNotice("deploy.ready", event, (about) => ({
        title: `${about.serviceName} is live with version ${event.version}`,
        body: `Version ${event.version} of ${placeOf(about)} is healthy${about.url ? ` at ${about.url}` : ""}.`,
      })),
    ),
    announce(DeploymentFailedSchema, (event) =>
      toNotice("deploy.failed", event, (about) => failed(about, event)),
    ),
    announce(DeploymentSupersededSchema, (event) =>
      toNotice("deploy.superseded", event, (about) => ({
        title: `Deployment ${event.version} of ${about.serviceName} was superseded`,
        body: `A newer deployment of ${placeOf(about)} began before version ${event.version} was live.`,
      })),
    ),
    announce(DeploymentQueuedSchema, async (event) =>
      event.rollbackOf === 0
        ? undefined
        : toNotice("deploy.rolled_back", event, (about) => ({
            title: `Rollback of ${about.serviceName} to version ${event.rollbackOf}`,
            body: `Deployment ${event.version} brings back what version ${event.rollbackOf} of ${placeOf(about)} ran.`,
          })),
    ),
  ];
}

function failed(about: ServiceDescription, { version }: Event): Words {
  const { errorStage = "", errorMessage = "" } = about.deployment ?? {};
  const reason = firstLine(errorMessage);
  return {
    title: `Deployment ${version} of ${about.serviceName} failed${errorStage && ` in ${errorStage}`}`,
    body: `${placeOf(about)}: ${reason} What was live before keeps running.`,
  };
}

const placeOf = (about: ServiceDescription) =>
  `${about.serviceName} in ${about.projectName}, ${about.environmentName}`;

function metadataOf(about: ServiceDescription, serviceId: string, version: number): Record<string, string> {
  const { projectId, projectName, environmentId, environmentName, serviceName, url } = about;
  return {
    projectId,
    project: projectName,
    environmentId,
    environment: environmentName,
    serviceId,
    service: serviceName,
    version: String(version),
    ...(url && { url }),
  };
}

/** Returns the first line of a text, as a sentence. */
function firstLine(text: string): string {
  const line = text.split("\n", 1)[0]!.trim().slice(0, 300);
  return /[.!?]$/.test(line) ? line : `${line}.`;
}

function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof ConnectError && error.code === Code.NotFound)) throw error;
}
