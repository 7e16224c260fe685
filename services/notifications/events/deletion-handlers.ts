import {
  EnvironmentDeletedSchema,
  ProjectDeletedSchema,
  type ServiceDeleted,
  ServiceDeletedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { deleteIncident } from "../incidents/sql.ts";
import type { Notice } from "../notices/notify.ts";
import { nameOf } from "../notices/text.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Announce } from "./announce.ts";

type Deletion = {
  accountId: string;
  byUserId: string;
  id: string;
  /** What was deleted: "Service web of shop, production". */
  what: string;
  /** What was deleted with it. */
  lost: string;
  metadata: Record<string, string>;
};

/** Handlers of deletions: only the outermost deleted resource is announced, not what it contained. */
export function deletionHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  async function deleted({ accountId, byUserId, id, what, lost, metadata }: Deletion): Promise<Notice[]> {
    const [{ handle, members }, actor] = await Promise.all([
      directory.account(accountId),
      directory.user(byUserId),
    ]);
    const kind = "deletion.completed";
    return [
      {
        kind,
        accountId,
        title: `${what} was deleted`,
        body: `${nameOf(actor)} deleted it from ${handle}, ${lost}. This cannot be undone.`,
        metadata: { account: handle, ...metadata, ...(byUserId && { byUserId }) },
        dedupe: id,
        recipients: audienceOf(kind, members),
      },
    ];
  }

  async function serviceDeleted(event: ServiceDeleted): Promise<Notice[]> {
    const { serviceId, environmentId, projectId, name, type, projectName, environmentName } = event;
    if (event.withEnvironment) return [];
    const data = DATA[type];
    const named = `${data ? "Addon" : "Service"} ${name} of ${projectName}, ${environmentName}`;
    const names = { project: projectName, environment: environmentName, service: name };
    const metadata = { projectId, environmentId, serviceId, ...(name && names) };
    const lost = data ? `with all its ${data} data` : "with its releases and logs";
    return deleted({ ...event, id: serviceId, what: name ? named : "A service", lost, metadata });
  }

  return [
    announce(ProjectDeletedSchema, async (event) => {
      const { projectId, name, services } = event;
      const what = name ? `Project ${name}` : "A project";
      const metadata = { projectId, ...(name && { project: name }) };
      return deleted({ ...event, id: projectId, what, lost: lostServices(services), metadata });
    }),

    announce(EnvironmentDeletedSchema, async (event) => {
      const { environmentId, projectId, name, projectName, services } = event;
      if (event.withProject) return [];
      const what = name ? `Environment ${name} of ${projectName}` : "An environment";
      const metadata = { projectId, environmentId, ...(name && { project: projectName, environment: name }) };
      return deleted({ ...event, id: environmentId, what, lost: lostServices(services), metadata });
    }),

    announce(ServiceDeletedSchema, serviceDeleted, (tx, { serviceId }) => deleteIncident(tx, serviceId)),
  ];
}

/** The data of each type of addon. */
const DATA: Record<string, string> = { postgres: "PostgreSQL", redis: "Redis" };

function lostServices(count: number): string {
  if (count === 0) return "with everything in it";
  return `with ${count === 1 ? "its service and its" : `its ${count} services and their`} data`;
}
