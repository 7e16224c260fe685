import { useMutation, useQuery } from "@tanstack/react-query";
import type { Deployment, DeploymentsPage, ServiceAddress } from "../../../typescript/src/index.ts";
import { queries } from "../../live/queries.ts";
import { berth } from "../../session/api.ts";

/** The deployments that were read, the newest first, and where those before them are. */
type History = { deployments: Deployment[]; next: string | undefined };

/** Returns what is known with a newer page at its top. One that does not reach what is known begins anew. */
function withNewest(known: History | undefined, { data, page }: DeploymentsPage): History {
  const next = page.hasMore ? page.nextCursor : undefined;
  const oldest = data.at(-1)?.version ?? 0;
  const newest = known?.deployments[0]?.version ?? 0;
  if (!known || newest < oldest - 1) return { deployments: data, next };
  return {
    deployments: [...data, ...known.deployments.filter(({ version }) => version < oldest)],
    next: known.next,
  };
}

/** Reads the deployments of a service: the newest page whenever there is news of them, and older ones when asked to. */
export function useHistory(at: ServiceAddress, serviceId: string) {
  const key = ["deployments", serviceId];
  const history = useQuery({
    queryKey: key,
    queryFn: async () =>
      withNewest(queries.getQueryData<History>(key), await berth.deployments.list(at, { limit: 20 }).page()),
  });
  const older = useMutation({
    mutationFn: (cursor: string) => berth.deployments.list(at, { limit: 100 }).page(cursor),
    onSuccess: ({ data, page }) =>
      queries.setQueryData<History>(
        key,
        (known) =>
          known && {
            deployments: [...known.deployments, ...data],
            next: page.hasMore ? page.nextCursor : undefined,
          },
      ),
  });
  return { history, older };
}
