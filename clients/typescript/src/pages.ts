type Page = { data: unknown[]; page: { nextCursor: string; hasMore: boolean } };
type EntryOf<P extends Page> = P["data"][number];

/** A list of the API: `for await` goes through all entries, and asks for each page when it is needed. */
export class Pages<P extends Page> implements AsyncIterable<EntryOf<P>> {
  readonly #fetch: (cursor?: string) => Promise<P>;

  constructor(fetch: (cursor?: string) => Promise<P>) {
    this.#fetch = fetch;
  }

  /** Fetches one page: the first, or that of a cursor (`page.nextCursor` of the one before). */
  page(cursor?: string): Promise<P> {
    return this.#fetch(cursor);
  }

  /** Goes through the pages. */
  async *pages(): AsyncGenerator<P, void> {
    let cursor: string | undefined;
    do {
      const page = await this.#fetch(cursor);
      yield page;
      cursor = page.page.hasMore ? page.page.nextCursor : undefined;
    } while (cursor);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<EntryOf<P>, void> {
    for await (const { data } of this.pages()) yield* data as EntryOf<P>[];
  }

  /** Fetches entries into an array, at most as many as `limit` says. */
  async all(limit = Number.POSITIVE_INFINITY): Promise<EntryOf<P>[]> {
    const entries: EntryOf<P>[] = [];
    if (limit > 0) for await (const entry of this) if (entries.push(entry) >= limit) break;
    return entries;
  }
}
