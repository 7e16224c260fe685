import { useQueries } from "@tanstack/react-query";
import type { EnvironmentAddress, ServiceState } from "../../../typescript/src/index.ts";
import { berth } from "../../session/api.ts";

/** A service receives keys of an addon, by these variables. */
export type Tie = { service: ServiceState; addon: ServiceState; variables: string[] };

export const isAddon = ({ type }: ServiceState) => type === "postgres" || type === "redis";

/**
 * Returns what ties services to addons. It is read for each service, and again when the service changes or the tab is
 * seen again. Names of variables are kept, and no values.
 */
export function useTies(at: EnvironmentAddress, services: ServiceState[]) {
  const apps = services.filter((service) => !isAddon(service));
  const results = useQueries({
    queries: apps.map((service) => ({
      queryKey: ["connections", service.id, service.release?.version, service.pendingChanges],
      queryFn: async () => {
        const { data, dangling } = await berth.variables.resolve({ ...at, service: service.name });
        return [...data, ...dangling].flatMap(({ name, connection }) =>
          connection ? [{ name, addon: connection.service }] : [],
        );
      },
    })),
  });
  return {
    isPending: results.some(({ isPending }) => isPending),
    error: results.find(({ error }) => error)?.error,
    ties: results.flatMap(({ data }, index) => tiesOf(apps[index] as ServiceState, data ?? [], services)),
  };
}

function tiesOf(
  service: ServiceState,
  variables: { name: string; addon: string }[],
  all: ServiceState[],
): Tie[] {
  return all.flatMap((addon) => {
    const own = variables.filter((variable) => isAddon(addon) && variable.addon === addon.name);
    return own.length > 0 ? [{ service, addon, variables: own.map(({ name }) => name) }] : [];
  });
}

const isOf = (tie: Tie, one: ServiceState) => tie.service === one || tie.addon === one;

/** Returns the two columns between which ties are drawn, each card near those that it is tied to, and the others. */
export function columnsOf(services: ServiceState[], ties: Tie[]) {
  const isTied = (service: ServiceState) => ties.some((tie) => isOf(tie, service));
  const tied = services.filter(isTied);
  const addons = tied.filter(isAddon);
  const apps = near(
    tied.filter((service) => !isAddon(service)),
    addons,
    ties,
  );
  return { apps, addons: near(addons, apps, ties), others: services.filter((service) => !isTied(service)) };
}

/** Sorts cards by the mean place of what they are tied to in the other column, so that few arrows cross. */
function near(own: ServiceState[], others: ServiceState[], ties: Tie[]): ServiceState[] {
  const placeOf = (one: ServiceState) => {
    const places = ties
      .filter((tie) => isOf(tie, one))
      .map((tie) => others.findIndex((other) => isOf(tie, other)));
    return places.reduce((sum, at) => sum + at, 0) / places.length;
  };
  return own.toSorted((one, other) => placeOf(one) - placeOf(other));
}
