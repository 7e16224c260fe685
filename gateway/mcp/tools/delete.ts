import { CatalogService } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import type { Api, ProjectAddress } from "../api.ts";
import { objectOf, TEXT } from "../shape.ts";
import type { Named, Service } from "./catalog.ts";
import { ANYWHERE, argumentsSchema, FIRST_ANSWER, type Tool, twoStep } from "./tool.ts";

type Address = ProjectAddress & { environmentId?: string; service?: string };

const { listEnvironments, listServices, getService, getProject } = CatalogService.method;
const { deleteProject, deleteEnvironment, deleteService } = CatalogService.method;

const shownOf = ({ name, type, status }: Service) => ({ name, type, status });

/** Returns what a deletion takes along, by environment. */
async function contents(api: Api, address: Address): Promise<Record<string, Service[]>> {
  if (address.service !== undefined) return { service: [await api.call<Service>(getService, address)] };
  if (address.environmentId !== undefined)
    return { environment: await api.all<Service>(listServices, address) };
  await api.call<Named>(getProject, address);
  const environments = await api.all<Named>(listEnvironments, address);
  const within = await Promise.all(
    environments.map(async ({ id, name }) => {
      const services = await api.all<Service>(listServices, { ...address, environmentId: id });
      return [`environment ${name}`, services] as const;
    }),
  );
  return Object.fromEntries(within);
}

const remove = twoStep<{ path: string }>({
  name: "delete",
  title: "Delete",
  description: "Deletes a project, an environment or a service, with all data in it. This cannot be undone.",
  does: "destroys",
  idempotent: true,
  calls: [deleteService],
  input: argumentsSchema({ path: ANYWHERE }, ["path"]),
  output: objectOf({ ...FIRST_ANSWER, deleted: TEXT }),
  async preview({ path }, api) {
    const within = Object.entries(await contents(api, await api.at.any(path)));
    return {
      question: `Delete ${path} with everything in it? This cannot be undone.`,
      shown: {
        deletes: Object.fromEntries(within.map(([where, services]) => [where, services.map(shownOf)])),
      },
      state: Object.fromEntries(
        within.map(([where, services]) => [where, services.map(({ id }) => id).sort()]),
      ),
    };
  },
  async perform({ path }, api) {
    const address: Address = await api.at.any(path);
    const rpc =
      address.service !== undefined
        ? deleteService
        : address.environmentId !== undefined
          ? deleteEnvironment
          : deleteProject;
    await api.call(rpc, { ...address, confirmImpact: true });
    return { data: { deleted: path } };
  },
});

export const deleteTools: Tool[] = [remove];
