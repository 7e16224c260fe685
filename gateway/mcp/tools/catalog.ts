import {
  CatalogService,
  CreateEnvironmentRequestSchema,
  CreateProjectRequestSchema,
  CreateServiceRequestSchema,
  EnvironmentSchema,
  GitSourceSchema,
  ProjectSchema,
  ServiceConfigSchema,
  ServiceSchema,
  ServiceSourceSchema,
} from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { AccountSchema, AccountService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { argumentOf, argumentsOf, listOf, NUMBER, objectOf, partOf, TEXT, TEXTS } from "../shape.ts";
import { AT_ENVIRONMENT, AT_PROJECT, AT_SERVICE, argumentsSchema, oneStep, type Tool } from "./tool.ts";

export type Named = { id: string; name: string };
export type Service = Named & {
  type: string;
  status: string;
  liveVersion?: number;
  config?: { replicas?: number; size?: string; storageGib?: number };
};

const { listProjects, listEnvironments, listServices } = CatalogService.method;

/** How many projects are shown with their environments. */
const SHOWN_PROJECTS = 10;

const whoami = oneStep({
  name: "whoami",
  title: "Who and where",
  description: "Your account, role and plan, and all projects with environments. Call it first.",
  does: "reads",
  calls: [AccountService.method.getAccount],
  input: argumentsSchema({}),
  output: objectOf({
    account: partOf(AccountSchema, "id", "handle", "myRole", "plan"),
    projects: listOf(objectOf({ id: TEXT, name: TEXT, environments: TEXTS })),
    total: NUMBER,
  }),
  async run(_input, { call, all, at, narrowed }) {
    const accountId = await at.account();
    const account = await call<Named>(AccountService.method.getAccount, { accountId });
    const projects = await all<Named>(listProjects, { accountId });
    const mine = projects.filter(({ id, name }) => !narrowed || narrowed === id || narrowed === name);
    const shown = await Promise.all(
      mine.slice(0, SHOWN_PROJECTS).map(async ({ id, name }) => {
        const environments = await all<Named>(listEnvironments, { accountId, projectId: id });
        return { id, name, environments: environments.map((each) => each.name) };
      }),
    );
    const others = mine.slice(SHOWN_PROJECTS).map(({ id, name }) => ({ id, name }));
    const next = mine.length === 0 ? "create_project" : "get_environment for project/environment";
    return { data: { account, projects: [...shown, ...others], total: mine.length }, next };
  },
});

const UNHEALTHY = ["failed", "crashed", "degraded"];

const getEnvironment = oneStep<{ environment: string }>({
  name: "get_environment",
  title: "Status of an environment",
  description: "All services and addons of an environment with their status.",
  does: "reads",
  calls: [listServices],
  input: argumentsSchema({ environment: AT_ENVIRONMENT }, ["environment"]),
  output: objectOf({
    services: listOf(
      partOf(
        ServiceSchema,
        "name",
        "type",
        "status",
        "statusMessage",
        "url",
        "liveVersion",
        "pendingChanges",
      ),
    ),
    total: NUMBER,
  }),
  async run({ environment }, { all, at }) {
    const services = await all<Service>(listServices, await at.environment(environment));
    const bad = services.find(({ status }) => UNHEALTHY.includes(status));
    return {
      data: { services, total: services.length },
      next: bad ? `get_service for ${environment}/${bad.name}, which is ${bad.status}` : undefined,
    };
  },
});

const getService = oneStep<{ service: string }>({
  name: "get_service",
  title: "A service",
  description: "Status, source and configuration of a service.",
  does: "reads",
  calls: [CatalogService.method.getService],
  input: argumentsSchema({ service: AT_SERVICE }, ["service"]),
  output: partOf(
    ServiceSchema,
    ...["id", "name", "type", "status", "statusMessage", "source", "config", "url"],
    ...["liveVersion", "pendingChanges", "server"],
  ),
  async run({ service }, { call, at }) {
    const found = await call<Service>(CatalogService.method.getService, await at.service(service));
    const next: Record<string, string> = {
      pending: "deploy",
      crashed: "get_logs, then get_deployments",
      degraded: "get_logs, then get_deployments",
      failed: "get_deployments, then get_build_logs or get_logs",
      deploying: "get_deployments until its healthyAt is set",
    };
    return { data: found, next: next[found.status] };
  },
});

const createProject = oneStep<{ name: string }>({
  name: "create_project",
  title: "Create a project",
  description: "Creates an empty project.",
  does: "adds",
  ofAccount: true,
  calls: [CatalogService.method.createProject],
  input: argumentsOf(CreateProjectRequestSchema, ["name"], ["name"]),
  output: partOf(ProjectSchema, "id", "name"),
  async run({ name }, { call, at }) {
    const accountId = await at.account();
    const project = await call<Named>(CatalogService.method.createProject, { accountId, name });
    return { data: project, next: "create_environment" };
  },
});

const createEnvironment = oneStep<{ project: string; name: string }>({
  name: "create_environment",
  title: "Create an environment",
  description: "Creates an environment, such as production.",
  does: "adds",
  calls: [CatalogService.method.createEnvironment],
  input: argumentsSchema({ project: AT_PROJECT, name: argumentOf(CreateEnvironmentRequestSchema, "name") }, [
    "project",
    "name",
  ]),
  output: partOf(EnvironmentSchema, "id", "name"),
  async run({ project, name }, { call, at }) {
    const address = await at.project(project);
    const created = await call<Named>(CatalogService.method.createEnvironment, { ...address, name });
    return { data: created, next: `create_service in ${project}/${name}` };
  },
});

type NewService = { environment: string; name: string; type: string; source?: object; config?: object };

const createService = oneStep<NewService>({
  name: "create_service",
  title: "Create a service or addon",
  description:
    "Creates a web, worker or cron service from an image or git, or an addon. A service waits for deploy.",
  does: "adds",
  calls: [CatalogService.method.createService],
  input: argumentsSchema(
    {
      environment: AT_ENVIRONMENT,
      name: argumentOf(CreateServiceRequestSchema, "name"),
      type: argumentOf(CreateServiceRequestSchema, "type"),
      source: argumentsOf(ServiceSourceSchema, [
        "image",
        [
          "git",
          argumentsOf(GitSourceSchema, ["repository", "branch", "contextDir"], ["repository", "branch"]),
        ],
      ]),
      config: argumentsOf(ServiceConfigSchema, [
        ...[
          "port",
          "command",
          "replicas",
          "size",
          "healthCheckPath",
          "public",
          "rootDirectory",
          "buildCommand",
          "version",
          "storageGib",
        ],
      ]),
    },
    ["environment", "name", "type"],
  ),
  output: partOf(ServiceSchema, "id", "name", "type", "status"),
  async run({ environment, ...service }, { call, at }) {
    const address = await at.environment(environment);
    const created = await call<Service>(CatalogService.method.createService, { ...address, ...service });
    const isAddon = service.type === "postgres" || service.type === "redis";
    const next = isAddon
      ? `set_variables with {"name":"DATABASE_URL","connection":{"service":"${service.name}","key":"URL"}}`
      : `deploy ${environment}/${service.name}`;
    return { data: created, next };
  },
});

export const catalogTools: Tool[] = [whoami, getEnvironment, getService];
export const newPlaces: Tool[] = [createProject, createEnvironment, createService];
