import { useQuery } from "@tanstack/react-query";
import type { AddonCapabilities, EnvironmentAddress } from "../../typescript/src/index.ts";
import { berth } from "../session/api.ts";

/**
 * Returns what can be chosen of a new addon in an environment; undefined where that is not known. The API says it of
 * addons that there are: the first one of its type in an environment is made as the installation makes them. Its storage
 * can grow later, and `berth services create` takes a version.
 */
export function useAddonCapabilities(
  at: EnvironmentAddress | undefined,
  type: string,
): AddonCapabilities | undefined {
  const { data } = useQuery({
    enabled: at !== undefined,
    queryKey: ["services", at?.environmentId],
    queryFn: () => berth.services.list(at as EnvironmentAddress, { limit: 100 }).page(),
  });
  return data?.data.find((service) => service.type === type)?.capabilities;
}
