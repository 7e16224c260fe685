import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useState } from "react";
import type { EnvironmentAddress, EnvironmentSet, ServiceState } from "../../typescript/src/index.ts";
import { berth } from "../session/api.ts";
import { type Liveness, useFollow } from "./follow.ts";

type LiveEnvironment = { services: ServiceState[] | undefined; liveness: Liveness };

const Environment = createContext<LiveEnvironment | undefined>(undefined);

/** Follows the environment of an address, once for all screens below. */
export function EnvironmentLive({ at, children }: { at: EnvironmentAddress; children: ReactNode }) {
  const [set, setSet] = useState<{ of: string; services: ServiceState[] }>();
  const { accountId, projectId, environmentId } = at;
  const liveness = useFollow<EnvironmentSet>(
    environmentId,
    (options) => berth.environments.follow({ accountId, projectId, environmentId }, options),
    ({ services }) => setSet({ of: environmentId, services }),
  );
  const services = set?.of === environmentId ? set.services : undefined;
  return <Environment value={{ services, liveness }}>{children}</Environment>;
}

export function useEnvironment(): LiveEnvironment {
  const environment = useContext(Environment);
  if (!environment) throw new Error("There is no environment outside its screens.");
  return environment;
}

/** The names of an environment and its project, as far as they are known yet. */
export function useEnvironmentNames({ accountId, projectId, environmentId }: EnvironmentAddress) {
  const project = useQuery({
    queryKey: ["project", projectId],
    queryFn: () => berth.projects.get({ accountId, projectId }),
  });
  const environment = useQuery({
    queryKey: ["environment", environmentId],
    queryFn: () => berth.environments.get({ accountId, projectId, environmentId }),
  });
  return { project: project.data?.name ?? "…", environment: environment.data?.name ?? "…" };
}

/** A service by its name or its id, as it is now; `undefined` while it is not known, `null` when there is none. */
export function useServiceState(name: string): ServiceState | null | undefined {
  const { services } = useEnvironment();
  if (!services) return undefined;
  return services.find((service) => service.name === name || service.id === name) ?? null;
}
