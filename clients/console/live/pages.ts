import { type QueryKey, useInfiniteQuery } from "@tanstack/react-query";
import type { Page } from "../../typescript/src/index.ts";

type PageOf<T> = { data: T[]; page: Page };
type PagedList<T> = {
  queryKey: QueryKey;
  read: (cursor: string | undefined) => Promise<PageOf<T>>;
  enabled?: boolean;
  staleTime?: number;
  refetchOnWindowFocus?: boolean;
  /** Whether the entries are shown that were read by another key, until those of this one are there. */
  keeps?: (before: QueryKey) => boolean;
};

/** A list of the API, read page by page. `data` are the entries of all pages that were read. */
export function usePages<T>({ read, keeps, ...options }: PagedList<T>) {
  return useInfiniteQuery<PageOf<T>, Error, T[], QueryKey, string>({
    ...options,
    queryFn: ({ pageParam }) => read(pageParam || undefined),
    initialPageParam: "",
    getNextPageParam: ({ page }) => (page.hasMore ? page.nextCursor : undefined),
    select: entriesOf<T>,
    ...(keeps && {
      placeholderData: (before, query) => (query && keeps(query.queryKey) ? before : undefined),
    }),
  });
}

// The same function each time, so that the entries stay the same objects between two renderings.
const entriesOf = <T>({ pages }: { pages: PageOf<T>[] }): T[] => pages.flatMap(({ data }) => data);
