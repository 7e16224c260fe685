import {
  CatalogService,
  ServiceConfigSchema,
  ServiceSchema,
} from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import {
  DeploymentSchema,
  DeploymentService,
  DeployRequestSchema,
  ListDeploymentsRequestSchema,
  NoticeSchema,
  RollbackRequestSchema,
} from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { type Api, type ServiceAddress, ToolRefusal } from "../api.ts";
import { argumentOf, listOf, objectOf, partOf, type Schema } from "../shape.ts";
import type { Service } from "./catalog.ts";
import { AT_SERVICE, argumentsSchema, FIRST_ANSWER, oneStep, type Tool, twoStep } from "./tool.ts";

type Deployment = { version: number; status: string; healthyAt?: string; errors: unknown[] };
type DryRun = {
  eligible: boolean;
  refusal?: { code: string; message: string; reasons: string[] };
  diff: object;
  dangling: object[];
  warnings: { message: string }[];
};

const { getService, updateService, restartService } = CatalogService.method;
const { listDeployments, getDeployment, cancelDeployment, rollback: rollBack } = DeploymentService.method;

const VERSION: Schema = argumentOf(RollbackRequestSchema, "version");
const NOTICE = partOf(NoticeSchema, "stage", "code", "message");

const getDeployments = oneStep<{ service: string; version?: number; limit?: number }>({
  name: "get_deployments",
  title: "Deployments",
  description: "The newest deployments of a service with errors and warnings, or one version.",
  does: "reads",
  calls: [listDeployments],
  input: argumentsSchema(
    { service: AT_SERVICE, version: VERSION, limit: argumentOf(ListDeploymentsRequestSchema, "limit") },
    ["service"],
  ),
  output: objectOf({
    deployments: listOf(
      partOf(
        DeploymentSchema,
        ...["version", "status", "buildStage", "image", "branch", "commit"],
        ["errors", NOTICE],
        ["warnings", NOTICE],
        ...["createdAt", "healthyAt", "finishedAt"],
      ),
    ),
  }),
  async run({ service, version, limit = 5 }, { call, at }) {
    const address = await at.service(service);
    const deployments =
      version === undefined
        ? (await call<{ data: Deployment[] }>(listDeployments, { ...address, limit })).data
        : [await call<Deployment>(getDeployment, { ...address, version })];
    return { data: { deployments }, next: nextOf(deployments[0]) };
  },
});

function nextOf(newest: Deployment | undefined): string | undefined {
  if (!newest) return "deploy";
  const { version, status, healthyAt } = newest;
  if (status === "failed") return `get_build_logs of version ${version}, or get_logs if it was applied`;
  if (status === "superseded" || healthyAt) return undefined;
  return `get_deployments of version ${version} until it is failed or has healthyAt`;
}

type Rpc = typeof rollBack | typeof DeploymentService.method.deploy;

/** Returns what a deployment starts from, and what it would change. Throws the refusal of one that cannot be made. */
async function dryRun(api: Api, rpc: Rpc, address: ServiceAddress, members: object) {
  const { eligible, refusal, diff, dangling, warnings } = await api.call<DryRun>(rpc, {
    ...address,
    ...members,
    dryRun: true,
  });
  if (!eligible) {
    const { code = "refused", message = "It would be refused.", reasons = [] } = refusal ?? {};
    throw new ToolRefusal(code, `${message} ${reasons.join(", ")}`.trim());
  }
  const [{ id, status, liveVersion }, { data }] = await Promise.all([
    api.call<Service>(getService, address),
    api.call<{ data: Deployment[] }>(listDeployments, { ...address, limit: 1 }),
  ]);
  const about = { liveVersion, newestVersion: data[0]?.version, diff, dangling };
  // A crashing service changes its status all the time, and is what is to be rolled back.
  const shown = { status, ...about, warnings: warnings.map(({ message }) => message) };
  return { state: { ...about, service: id }, shown };
}

const DEPLOYED = objectOf({
  ...FIRST_ANSWER,
  deployment: partOf(DeploymentSchema, "version", "status", "image"),
});

const deployed = (deployment: Deployment) => ({
  data: { deployment },
  next: nextOf(deployment.version ? deployment : undefined),
});

const deploy = twoStep<{ service: string; image?: string }>({
  name: "deploy",
  title: "Deploy",
  description: "Deploys an image, or else the newest commit of the service's git branch, or what is live.",
  does: "changes",
  calls: [DeploymentService.method.deploy],
  input: argumentsSchema({ service: AT_SERVICE, image: argumentOf(DeployRequestSchema, "image") }, [
    "service",
  ]),
  output: DEPLOYED,
  async preview({ service, image }, api) {
    const address = await api.at.service(service);
    const found = await dryRun(api, DeploymentService.method.deploy, address, { image });
    return { question: `Deploy ${image ?? "the newest source"} to ${service}?`, ...found };
  },
  async perform({ service, image }, api, once) {
    const members = { ...(await api.at.service(service)), image };
    return deployed(await api.call<Deployment>(DeploymentService.method.deploy, members, once));
  },
});

const rollback = twoStep<{ service: string; version: number }>({
  name: "rollback",
  title: "Roll back",
  description: "Deploys an earlier version that was healthy again, with today's variables.",
  does: "changes",
  calls: [rollBack],
  input: argumentsSchema({ service: AT_SERVICE, version: VERSION }, ["service", "version"]),
  output: DEPLOYED,
  async preview({ service, version }, api) {
    const address = await api.at.service(service);
    const found = await dryRun(api, rollBack, address, { version });
    return { question: `Roll ${service} back to version ${version}?`, ...found };
  },
  async perform({ service, version }, api, once) {
    const members = { ...(await api.at.service(service)), version };
    return deployed(await api.call<Deployment>(rollBack, members, once));
  },
});

const RUNNING = objectOf({
  ...FIRST_ANSWER,
  service: partOf(ServiceSchema, "name", "status", "liveVersion"),
});

const restart = twoStep<{ service: string }>({
  name: "restart",
  title: "Restart",
  description: "Replaces the running replicas by new ones of the same version.",
  does: "changes",
  calls: [restartService],
  input: argumentsSchema({ service: AT_SERVICE }, ["service"]),
  output: RUNNING,
  async preview({ service }, api) {
    const { id, status, liveVersion, config } = await api.call<Service>(
      getService,
      await api.at.service(service),
    );
    const about = { liveVersion, replicas: config?.replicas };
    return {
      question: `Restart ${service}?`,
      shown: { status, ...about },
      state: { ...about, service: id },
    };
  },
  async perform({ service }, api, once) {
    const restarted = await api.call<Service>(restartService, await api.at.service(service), once);
    return { data: { service: restarted }, next: "get_service until it is running" };
  },
});

const cancel = oneStep<{ service: string; version: number }>({
  name: "cancel_deployment",
  title: "Cancel a deployment",
  description: "Stops a deployment that is not applied yet. What is live stays.",
  does: "changes",
  idempotent: true,
  calls: [cancelDeployment],
  input: argumentsSchema({ service: AT_SERVICE, version: VERSION }, ["service", "version"]),
  output: partOf(DeploymentSchema, "version", "status"),
  async run({ service, version }, { call, at }) {
    return { data: await call<Deployment>(cancelDeployment, { ...(await at.service(service)), version }) };
  },
});

type Scaled = { service: string; replicas?: number; size?: string; storageGib?: number };

const scale = twoStep<Scaled>({
  name: "scale",
  title: "Scale",
  description: "Changes replicas, size or an addon's storage, at once. 0 replicas stop a service.",
  does: "changes",
  idempotent: true,
  calls: [updateService],
  input: argumentsSchema(
    {
      service: AT_SERVICE,
      replicas: argumentOf(ServiceConfigSchema, "replicas"),
      size: argumentOf(ServiceConfigSchema, "size"),
      storageGib: argumentOf(ServiceConfigSchema, "storageGib"),
    },
    ["service"],
  ),
  output: RUNNING,
  async preview({ service, replicas, size, storageGib }, api) {
    if (replicas === undefined && size === undefined && storageGib === undefined)
      throw new ToolRefusal("empty_patch", "Give replicas, size or storageGib.");
    const { id, status, config } = await api.call<Service>(getService, await api.at.service(service));
    const from = { replicas: config?.replicas, size: config?.size, storageGib: config?.storageGib };
    const to = {
      replicas: replicas ?? from.replicas,
      size: size ?? from.size,
      storageGib: storageGib ?? from.storageGib,
    };
    const storage = to.storageGib === undefined ? "" : ` with ${to.storageGib} GiB`;
    const question = `Scale ${service} to ${to.replicas ?? 1} × ${to.size}${storage}?`;
    return { question, shown: { status, from, to }, state: { from, to, service: id } };
  },
  async perform({ service, ...config }, api) {
    const members = { ...(await api.at.service(service)), config };
    return { data: { service: await api.call<Service>(updateService, members) } };
  },
});

export const deploymentTools: Tool[] = [getDeployments];
export const deployTools: Tool[] = [deploy, rollback, restart, cancel, scale];
