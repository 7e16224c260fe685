/** How many commits a set remembers; a follower that is further behind begins again. */
const KEPT_COMMITS = 100;

/** What a followed set is made of. */
export type Members<T> = {
  /** Returns the revision of the members as they are now. It is the event id of a commit. */
  revision: () => string;
  keys: () => Iterable<string>;
  /** Returns a member as followers get it; undefined when the set has none of this key. */
  render: (key: string) => T | undefined;
};

/**
 * One set that any number of streams follow. It knows which members changed with each of the last commits, and what
 * followers get is rendered once for all of them. A follower reads at its own pace, so a slow one holds up nobody: what
 * changed several times in the meantime it gets once.
 */
export class FollowedSet<T> {
  readonly #members: Members<T>;
  /** Grows with each commit. */
  #seq = 0;
  /** The keys that changed with the last commits, the newest last. */
  #commits: ReadonlySet<string>[] = [];
  #rendered = new Map<string, T>();
  readonly #waiting = new Set<() => void>();
  #ended: Error | undefined;

  constructor(members: Members<T>) {
    this.#members = members;
  }

  get seq(): number {
    return this.#seq;
  }

  get revision(): string {
    return this.#members.revision();
  }

  keys(): Iterable<string> {
    return this.#members.keys();
  }

  /** Says that members changed. */
  commit(keys: ReadonlySet<string>): void {
    this.#seq++;
    for (const key of keys) this.#rendered.delete(key);
    this.#commits.push(keys);
    if (this.#commits.length > KEPT_COMMITS) this.#commits.shift();
    this.#wake();
  }

  /** Says that any member may have changed: all followers begin again. */
  reset(): void {
    this.#seq++;
    this.#rendered.clear();
    this.#commits = [];
    this.#wake();
  }

  /** Ends all streams of the set with an error. */
  end(error: Error): void {
    this.#ended = error;
    this.#wake();
  }

  /** Returns the keys that changed after a commit; undefined when that is no longer known. Throws once the set ended. */
  changedSince(seq: number): Set<string> | undefined {
    if (this.#ended) throw this.#ended;
    const behind = this.#seq - seq;
    if (behind > this.#commits.length) return undefined;
    const changed = new Set<string>();
    for (const keys of this.#commits.slice(this.#commits.length - behind))
      for (const key of keys) changed.add(key);
    return changed;
  }

  render(key: string): T | undefined {
    const member = this.#rendered.get(key) ?? this.#members.render(key);
    if (member !== undefined) this.#rendered.set(key, member);
    return member;
  }

  /** Resolves once there is another commit than `seq`, the set ended, `signal` aborted, or `ms` have passed. */
  next(seq: number, signal: AbortSignal, ms: number): Promise<void> {
    if (this.#seq !== seq || this.#ended || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener("abort", end);
      this.#waiting.add(end);
    });
  }

  #wake(): void {
    for (const end of [...this.#waiting]) end();
  }
}
