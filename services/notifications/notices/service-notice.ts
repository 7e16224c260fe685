import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type {
  InternalService,
  ServiceDescription,
} from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { coalesced } from "../../kit/concurrency/coalesce.ts";
import type { KindKey } from "../kinds/kinds.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Notice } from "./notify.ts";

type About = { accountId: string; serviceId: string; version?: number };
type Content = Pick<Notice, "title" | "body">;

/** Kinds that need the deployment's messages; for the others one lookup serves events that arrive together. */
const EXPLAINED: KindKey[] = ["deploy.failed", "deploy.unhealthy"];

export type ServiceNotice = ReturnType<typeof createServiceNotice>;

/** Returns the function that makes a notice about a service; it returns undefined once the service is deleted. */
export function createServiceNotice(deployer: Client<typeof InternalService>, directory: Directory) {
  const explain = (of: { serviceId: string; version?: number }) =>
    deployer.describeService(of).catch(undefinedIfGone);
  const describe = coalesced((serviceId) => explain({ serviceId }));

  return async (
    kind: KindKey,
    { accountId, serviceId, version }: About,
    content: (service: ServiceDescription) => Content,
    dedupe = `${serviceId}:${version}`,
  ): Promise<Notice | undefined> => {
    const [service, { members }] = await Promise.all([
      EXPLAINED.includes(kind)
        ? explain({ serviceId, ...(version !== undefined && { version }) })
        : describe(serviceId),
      directory.account(accountId),
    ]);
    if (!service) return undefined;
    const metadata = metadataOf(service, serviceId, version);
    return { kind, accountId, ...content(service), metadata, dedupe, recipients: audienceOf(kind, members) };
  };
}

/** Returns "web in shop, production". */
export function qualifiedNameOf({ serviceName, projectName, environmentName }: ServiceDescription): string {
  return `${serviceName} in ${projectName}, ${environmentName}`;
}

/** Returns the ids and names of a service, and the version of a deployment if there is one. */
export function metadataOf(
  service: ServiceDescription,
  serviceId: string,
  version?: number,
): Record<string, string> {
  const { projectId, projectName, environmentId, environmentName, serviceName, url } = service;
  return {
    projectId,
    project: projectName,
    environmentId,
    environment: environmentName,
    serviceId,
    service: serviceName,
    ...(version !== undefined && { version: String(version) }),
    ...(url && { url }),
  };
}

export function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof ConnectError && error.code === Code.NotFound)) throw error;
}
