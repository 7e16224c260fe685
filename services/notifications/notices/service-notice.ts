import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type {
  InternalService,
  ServiceDescription,
} from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { coalesced } from "../../kit/coalesce.ts";
import type { KindKey } from "../catalog/kinds.ts";
import type { Notice } from "./notify.ts";
import { audienceOf, type Directory } from "./recipients.ts";

type About = { accountId: string; serviceId: string; version: number };
type Words = Pick<Notice, "title" | "body">;

/** Kinds that say what a deployment says; for the others a service is described once for events that arrive together. */
const EXPLAINED: KindKey[] = ["deploy.failed", "deploy.unhealthy"];

export type ServiceNotice = ReturnType<typeof createServiceNotice>;

/** Returns the function that makes a notice about a service; undefined once the service is deleted: nobody needs it then. */
export function createServiceNotice(deployer: Client<typeof InternalService>, directory: Directory) {
  const explain = (of: { serviceId: string; version?: number }) =>
    deployer.describeService(of).catch(undefinedIfGone);
  const describe = coalesced((serviceId) => explain({ serviceId }));

  return async (
    kind: KindKey,
    { accountId, serviceId, version }: About,
    words: (service: ServiceDescription) => Words,
    dedupe = `${serviceId}:${version}`,
  ): Promise<Notice | undefined> => {
    const [service, { members }] = await Promise.all([
      EXPLAINED.includes(kind) ? explain({ serviceId, version }) : describe(serviceId),
      directory.account(accountId),
    ]);
    if (!service) return undefined;
    const metadata = metadataOf(service, serviceId, version);
    return { kind, accountId, ...words(service), metadata, dedupe, recipients: audienceOf(kind, members) };
  };
}

/** Returns "web in shop, production". */
export function placeOf({ serviceName, projectName, environmentName }: ServiceDescription): string {
  return `${serviceName} in ${projectName}, ${environmentName}`;
}

function metadataOf(service: ServiceDescription, serviceId: string, version: number): Record<string, string> {
  const { projectId, projectName, environmentId, environmentName, serviceName, url } = service;
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

export function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof ConnectError && error.code === Code.NotFound)) throw error;
}
