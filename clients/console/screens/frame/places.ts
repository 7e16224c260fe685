import type { AccountAddress, ServiceAddress } from "../../../typescript/src/index.ts";
import { queries } from "../../live/queries.ts";
import { berth } from "../../session/api.ts";

export type Place = { words: string[]; params: AccountAddress & Partial<ServiceAddress> };

/** How many projects are searched, and the services of how many environments: each of them costs a request. */
export const MOST_PROJECTS = 30;
export const MOST_ENVIRONMENTS = 200;
/** More in one place are found by its own list. */
const MOST = 1_000;

/** Yields the projects, environments and services of an account as they are read. */
export async function* placesOf(accountId: string): AsyncGenerator<Place, void> {
  const read = <T>(key: string[], queryFn: () => Promise<T>) =>
    queries.fetchQuery({ queryKey: key, queryFn });
  const projects = await read(["places", accountId], () =>
    berth.projects.list({ accountId }, { limit: 100 }).all(MOST_PROJECTS),
  );
  const trees = projects.map(async ({ id: projectId, name }) => {
    const at = { accountId, projectId };
    const environments = await read(["places", projectId], () =>
      berth.environments.list(at, { limit: 100 }).all(MOST),
    );
    return { name, environments };
  });
  const rest: Promise<Place[]>[] = [];
  for (const tree of trees) {
    const { name, environments } = await tree;
    for (const { id: environmentId, projectId, name: environment } of environments) {
      const at = { accountId, projectId, environmentId };
      yield { words: [name, environment], params: at };
      if (rest.length >= MOST_ENVIRONMENTS) continue;
      const services = read(["places", environmentId], () =>
        berth.services.list(at, { limit: 100 }).all(MOST),
      );
      const toPlaces = services.then((all) =>
        all.map((service) => ({
          words: [name, environment, service.name],
          params: { ...at, service: service.name },
        })),
      );
      toPlaces.catch(() => {});
      rest.push(toPlaces);
    }
  }
  for (const places of rest) yield* await places;
}
