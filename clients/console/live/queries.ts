import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isRefusal } from "../../typescript/src/index.ts";
import { leaveWithoutSession } from "../session/api.ts";

/** What was read of the API. The client tries again by itself what may be tried again. */
export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: (error) => void leaveWithoutSession(error) }),
  mutationCache: new MutationCache({
    onError: (error) => {
      // The role may have changed since the user was read.
      if (!leaveWithoutSession(error) && isRefusal(error, "forbidden"))
        void queries.invalidateQueries({ queryKey: ["me"] });
    },
  }),
  defaultOptions: {
    // Offline requests are refused rather than held back, so that a screen says why it waits.
    queries: { retry: false, staleTime: 15_000, networkMode: "always", refetchOnReconnect: true },
    mutations: { retry: false, networkMode: "always" },
  },
});
