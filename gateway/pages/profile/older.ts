import { type Html, html } from "../../../services/kit/html.ts";

/** A page of a list of the API. */
export type List<T> = { data: T[]; page: { nextCursor: string; hasMore: boolean } };

/** How lists go on: by the cursor of the API in the query. */
export const older = {
  queryOf(query: URLSearchParams): string {
    const cursor = query.get("cursor");
    return cursor === null ? "" : `?${new URLSearchParams({ cursor })}`;
  },
  link(path: string, { nextCursor, hasMore }: List<unknown>["page"]): Html | false {
    return (
      hasMore &&
      html`<p><a href="${path}?${new URLSearchParams({ cursor: nextCursor }).toString()}">Show older</a></p>`
    );
  },
};
