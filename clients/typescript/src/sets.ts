import type { Operations } from "./generated/api.ts";
import type { DanglingVariable, ResolvedVariable, ServiceState } from "./generated/types.ts";
import type { EnvironmentAddress, ServiceAddress } from "./path.ts";
import type { StreamOptions } from "./streams.ts";

/** A set is followed from its beginning, so there is no place to resume from. */
export type SetOptions = Omit<StreamOptions, "lastEventId">;

/** What a service receives, and which names changed since the set before; at first all of them. */
export type ResolvedSet = {
  data: ResolvedVariable[];
  dangling: DanglingVariable[];
  changed: string[];
  revision: string;
};

/** What an environment shows, and the ids of the services that changed since the set before; at first all of them. */
export type EnvironmentSet = { services: ServiceState[]; changed: string[]; revision: string };

type Event = { event: string; data: object };
type Committed<T> = { members: Map<string, T>; changed: string[]; revision: string };

/** Yields the members of a followed set whenever a commit changed them. What was not committed is never seen. */
async function* commits<T>(
  events: AsyncIterable<Event>,
  keyOf: (data: T) => string,
): AsyncGenerator<Committed<T>, void> {
  let committed: Map<string, T> | undefined;
  let members = new Map<string, T>();
  let changed = new Set<string>();
  for await (const { event, data } of events) {
    if (event === "begin") {
      const isFull = (data as { mode: string }).mode === "full";
      members = new Map(isFull ? [] : committed);
      changed = new Set(isFull ? committed?.keys() : []);
    } else if (event === "set" || event === "unset") {
      const key = keyOf(data as T);
      if (event === "set") members.set(key, data as T);
      else members.delete(key);
      changed.add(key);
    } else if (event === "commit") {
      const { revision } = data as { revision: string };
      const isNews = !committed || changed.size > 0;
      committed = members;
      if (isNews) yield { members, changed: [...changed], revision };
      changed = new Set();
    }
  }
}

const byName = <T extends { name: string }>(members: Map<string, T>): T[] =>
  [...members.values()].sort((one, other) => (one.name < other.name ? -1 : 1));

type Names = { name: string; variable?: ResolvedVariable; dangling?: DanglingVariable };

export const variableHelpers = (api: Operations["variables"]) => ({
  /** Yields what a service receives, first at once and then whenever it changes. Values of sensitive variables are withheld. */
  async *followResolved(at: ServiceAddress, options?: SetOptions): AsyncGenerator<ResolvedSet, void> {
    const events = api.followEvents(at, options);
    for await (const { members, ...rest } of commits<Names>(events, ({ name }) => name)) {
      const entries = byName(members);
      const data = entries.flatMap(({ variable }) => variable ?? []);
      yield { data, dangling: entries.flatMap(({ dangling }) => dangling ?? []), ...rest };
    }
  },
});

export const environmentHelpers = (api: Operations["environments"]) => ({
  /** Yields what an environment shows of its services and addons, first at once and then whenever something changes. */
  async *follow(at: EnvironmentAddress, options?: SetOptions): AsyncGenerator<EnvironmentSet, void> {
    const events = api.followEvents(at, options);
    for await (const { members, ...rest } of commits<ServiceState>(events, ({ id }) => id))
      yield { services: byName(members), ...rest };
  },
});
