import { createHmac, timingSafeEqual } from "node:crypto";
import { refuse } from "../rpc/refusals.ts";

/** The page size of lists when the request has none. */
const DEFAULT_LIMIT = 20;

/** Sorts after every id. */
const LAST = "zzzz";

/**
 * Returns the condition, in SQL, that an id is below a cursor; without a cursor, every id is. As `$2 is null or id < $2` it
 * could not be looked up in an index by the plan that PostgreSQL keeps for a statement, so that a page in the middle of 10 000
 * entries read all entries before it.
 */
export const isBelow = (column: string, cursor: string) => `${column} < coalesce(${cursor}::text, '${LAST}')`;

/** The cursors of a service's lists. */
export type Cursors = ReturnType<typeof createCursors>;

/**
 * Keyset paging (docs/conventions.md#paging). A cursor is the sort key of the last row, bound to its list by a short MAC.
 * One of another list, or a damaged one, is refused with 400 malformed_request.
 */
export function createCursors(keys: Buffer[]) {
  const mac = (key: Buffer, list: string, text: string) =>
    createHmac("sha256", key).update(`${list}\n${text}`).digest().subarray(0, 8);
  const encode = (list: string, value: string) =>
    Buffer.concat([mac(keys[0]!, list, value), Buffer.from(value)]).toString("base64url");
  const decode = (list: string, cursor: string | undefined): string | undefined => {
    if (cursor === undefined || cursor === "") return undefined;
    const bytes = Buffer.from(cursor, "base64url");
    const value = bytes.subarray(8).toString();
    // Decoding alone passes over other characters: each position has one spelling.
    const exact = bytes.toString("base64url") === cursor && Buffer.from(value).equals(bytes.subarray(8));
    const genuine =
      exact &&
      bytes.length > 8 &&
      keys.some((key) => timingSafeEqual(mac(key, list, value), bytes.subarray(0, 8)));
    if (!genuine) throw foreignCursor();
    return value;
  };
  return {
    /** Returns the cursor of a position in a list. */
    encode,
    /** Returns the sort key of a cursor, or undefined for the first page. */
    decode,
    /**
     * Returns the page of a list that a request asks for. `fetch` returns at most `limit` rows, newest first, of those
     * whose sort key is below `before`; `key` returns the sort key of a row, by default its id.
     */
    async page<Row extends { id: string }>(
      list: string,
      request: { limit?: number; cursor?: string },
      fetch: (page: { before: string | undefined; limit: number }) => Promise<Row[]>,
      key: (row: Row) => string = (row) => row.id,
    ) {
      const { limit = DEFAULT_LIMIT, cursor } = request;
      // One row more than the page, to know whether there are more.
      const fetched = await fetch({ before: decode(list, cursor), limit: limit + 1 });
      const data = fetched.slice(0, limit);
      const hasMore = fetched.length > limit;
      const nextCursor = hasMore ? encode(list, key(data.at(-1)!)) : "";
      return { data, page: { nextCursor, hasMore } };
    },
  };
}

/** Returns 400 for a cursor that is not from the list that it is used with. */
export function foreignCursor() {
  return refuse(400, "malformed_request", "The cursor is not from this list.");
}
