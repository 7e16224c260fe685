import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import {
  DeploymentQueuedSchema,
  RunEndedSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
  ServiceRenamedSchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type {
  InternalService,
  ServiceDescription,
} from "../../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { MemberRoleChangedSchema } from "../../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../../../kit/events/handler.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { metadataOf, qualifiedNameOf, undefinedIfGone } from "../../notices/service-notice.ts";
import { endText, nameOf, roleText, timeKey } from "../../notices/text.ts";
import type { Directory } from "../../recipients/directory.ts";
import type { WebhookMessage } from "../../webhooks/bodies.ts";
import { publish } from "../../webhooks/publish.ts";
import { hasWebhooks } from "../../webhooks/sql.ts";

/** Joins handlers with those of messages, which handle some of the same events: both in one transaction. */
export function together(handlers: Handler[], messages: Handler[]): Handler[] {
  const rest = new Map(messages.map((one) => [one.event, one]));
  const joined = handlers.map((handler): Handler => {
    const message = rest.get(handler.event);
    if (!message) return handler;
    rest.delete(handler.event);
    return {
      event: handler.event,
      async begin(payload) {
        const effects = await Promise.all([handler.begin(payload), message.begin(payload)]);
        return async (tx) => {
          for (const effect of effects) await effect(tx);
        };
      },
    };
  });
  return [...joined, ...rest.values()];
}

/** Returns the function that makes handlers of events that only webhooks are told of; others are asked for them alone. */
function messenger(pool: Pool) {
  return <S extends DescMessage>(
    schema: S,
    toMessage: (event: MessageShape<S>) => Promise<WebhookMessage | undefined>,
  ): Handler =>
    on<S, WebhookMessage | undefined>(schema, {
      prepare: async (event) => {
        const { accountId } = event as unknown as { accountId: string };
        return (await hasWebhooks(pool, accountId)) ? toMessage(event) : undefined;
      },
      handle: async (tx, _event, message) => {
        if (message) await publish(tx, message);
      },
    });
}

/** Handlers of what webhooks are told of services and their deployments, besides what notifications say. */
export function deploymentMessages({
  pool,
  deployer,
}: {
  pool: Pool;
  deployer: Client<typeof InternalService>;
}): Handler[] {
  const message = messenger(pool);
  const describe = (serviceId: string): Promise<ServiceDescription | undefined> =>
    deployer.describeService({ serviceId }).catch(undefinedIfGone);

  /** Returns what is known of a service: less when it has been deleted since. */
  async function about(event: {
    serviceId: string;
    projectId: string;
    environmentId: string;
    name: string;
  }): Promise<Record<string, string>> {
    const { serviceId, projectId, environmentId, name } = event;
    const service = await describe(serviceId);
    // The name at the time of the event.
    if (service) return { ...metadataOf(service, serviceId), service: name };
    return { projectId, environmentId, serviceId, service: name };
  }
  const placeOf = ({ project, environment }: Record<string, string>) =>
    project ? ` in ${project}, ${environment}` : "";

  return [
    message(DeploymentQueuedSchema, async ({ accountId, serviceId, version, rollbackOf }) => {
      const service = await describe(serviceId);
      if (!service) return undefined;
      const rollback = rollbackOf === 0 ? "" : ` It rolls back to version ${rollbackOf}.`;
      return {
        kind: "deploy.queued",
        accountId,
        title: `Deployment ${version} of ${service.serviceName} was queued`,
        body: `Version ${version} of ${qualifiedNameOf(service)} is being deployed.${rollback}`,
        metadata: metadataOf(service, serviceId, version),
        dedupe: `${serviceId}:${version}`,
      };
    }),

    message(RunEndedSchema, async (event) => {
      const { accountId, serviceId, runId, status, trigger, exitCode } = event;
      const service = await describe(serviceId);
      if (!service) return undefined;
      const code: Record<string, string> = exitCode === undefined ? {} : { exitCode: String(exitCode) };
      return {
        kind: "run.ended",
        accountId,
        title: `A run of ${service.serviceName} ${status === "succeeded" ? "succeeded" : "failed"}`,
        body: `${trigger === "schedule" ? "A scheduled run" : "A run"} of ${qualifiedNameOf(service)} ended. ${endText(event)}`,
        metadata: { ...metadataOf(service, serviceId), runId, status, trigger, ...code },
        dedupe: runId,
      };
    }),

    message(ServiceCreatedSchema, async (event) => {
      const { accountId, serviceId, name, type } = event;
      const metadata: Record<string, string> = { ...(await about(event)), type };
      return {
        kind: "service.created",
        accountId,
        title: `Service ${name} was created`,
        body: `The ${type} service ${name} was created${placeOf(metadata)}.`,
        metadata,
        dedupe: serviceId,
      };
    }),

    message(ServiceRenamedSchema, async (event) => {
      const { accountId, serviceId, name, type, namedAt } = event;
      const metadata: Record<string, string> = { ...(await about(event)), type };
      return {
        kind: "service.renamed",
        accountId,
        title: `A service was renamed to ${name}`,
        body: `The ${type} service${placeOf(metadata)} is now called ${name}.`,
        metadata,
        dedupe: `${serviceId}:${timeKey(namedAt)}`,
      };
    }),

    message(ServiceDeletedSchema, async (event) => {
      const { accountId, serviceId, projectId, environmentId, name, type } = event;
      const names = { project: event.projectName, environment: event.environmentName };
      const metadata: Record<string, string> = {
        ...{ projectId, environmentId, serviceId, service: name, type },
        ...(names.project && names),
      };
      return {
        kind: "service.deleted",
        accountId,
        title: `Service ${name} was deleted`,
        body: `The ${type} service ${name} was deleted${placeOf(metadata)}.`,
        metadata,
        dedupe: serviceId,
      };
    }),
  ];
}

/** Handlers of what webhooks are told of members, besides what notifications say. */
export function memberMessages({ pool, directory }: { pool: Pool; directory: Directory }): Handler[] {
  const message = messenger(pool);
  return [
    message(MemberRoleChangedSchema, async ({ accountId, userId, role, previousRole, at }) => {
      const [{ handle }, user] = await Promise.all([directory.account(accountId), directory.user(userId)]);
      const name = nameOf(user, "A member");
      return {
        kind: "member.role_changed",
        accountId,
        title: `${name} is now ${roleText(role)} of ${handle}`,
        body: `The role of ${name} in ${handle} changed from ${previousRole} to ${role}.`,
        metadata: { account: handle, userId, role, previousRole },
        dedupe: `${userId}:${role}:${timeKey(at)}`,
      };
    }),
  ];
}
