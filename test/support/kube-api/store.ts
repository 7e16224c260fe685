import { isDeepStrictEqual } from "node:util";

/** An object as the API stores it. */
export type Stored = {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    uid: string;
    resourceVersion: string;
    generation: number;
    creationTimestamp: string;
    labels?: Record<string, string>;
    [member: string]: unknown;
  };
  [member: string]: unknown;
};

/** The objects of a kind that a request is about. */
export type Scope = { apiVersion: string; plural: string; namespace?: string };

export type StoreEvent = {
  type: "ADDED" | "MODIFIED" | "DELETED";
  version: number;
  scope: Scope;
  object: Stored;
};

/** A refusal of the API. */
export class Refusal extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

type Members = Record<string, unknown>;
/** An object as a client sends it. */
export type Given = Members & {
  metadata: Members & {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    creationTimestamp?: string;
  };
};

/** The objects of a simulated cluster, each change with its version, and the changes that watches may resume from. */
export function createStore() {
  /** By kind, then by namespace. */
  const kinds = new Map<string, Map<string, Map<string, Stored>>>();
  /** What was applied last, by the object: what is left out the next time is removed. */
  const applied = new WeakMap<Stored, Members>();
  const listeners = new Set<(event: StoreEvent) => void>();
  let events: StoreEvent[] = [];
  let version = 1;
  let oldest = 1;

  const spacesOf = ({ apiVersion, plural }: Scope) =>
    getOrAdd(kinds, `${apiVersion} ${plural}`, () => new Map<string, Map<string, Stored>>());
  const objectsOf = (scope: Scope) =>
    getOrAdd(spacesOf(scope), scope.namespace ?? "", () => new Map<string, Stored>());

  function publish(type: StoreEvent["type"], scope: Scope, object: Stored): void {
    const event = { type, version, scope, object };
    events.push(event);
    for (const listener of listeners) listener(event);
  }

  function find(scope: Scope, name: string): Stored | undefined {
    return objectsOf(scope).get(name);
  }

  /** Stores an object, unless nothing of it is new. */
  function put(scope: Scope, given: Given): Stored {
    const { name } = given.metadata;
    const live = find(scope, name);
    if (!live && scope.namespace && !find({ apiVersion: "v1", plural: "namespaces" }, scope.namespace))
      throw new Refusal(404, `namespaces "${scope.namespace}" not found`);
    const {
      uid = `uid-${version + 1}`,
      generation = 0,
      creationTimestamp = given.metadata.creationTimestamp ?? new Date().toISOString(),
    } = live?.metadata ?? {};
    const { resourceVersion, uid: _, ...metadata } = given.metadata;
    const kept = { uid, generation, creationTimestamp };
    const whole = (more: Members) =>
      ({ ...given, metadata: { ...metadata, namespace: scope.namespace, ...kept, ...more } }) as Stored;
    if (live && isDeepStrictEqual(whole({ resourceVersion: live.metadata.resourceVersion }), live))
      return live;
    version++;
    const next = isDeepStrictEqual(live?.spec, given.spec) ? generation : generation + 1;
    const stored = whole({ resourceVersion: String(version), generation: next });
    objectsOf(scope).set(name, stored);
    publish(live ? "MODIFIED" : "ADDED", scope, stored);
    return stored;
  }

  function remove(scope: Scope, name: string): void {
    const object = find(scope, name);
    if (!object) throw new Refusal(404, `${scope.plural} "${name}" not found`);
    if (scope.plural === "namespaces")
      for (const [kind, spaces] of kinds) {
        const [apiVersion = "", plural = ""] = kind.split(" ");
        for (const held of [...(spaces.get(name)?.keys() ?? [])])
          remove({ apiVersion, plural, namespace: name }, held);
      }
    version++;
    objectsOf(scope).delete(name);
    publish("DELETED", scope, {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(version) },
    });
  }

  return {
    version: () => version,
    find,
    put,
    remove,

    create(scope: Scope, object: Given): Stored {
      if (find(scope, object.metadata.name))
        throw new Refusal(409, `"${object.metadata.name}" already exists`);
      return put(scope, object);
    },

    /** Server-side apply by the only manager there is. */
    apply(scope: Scope, object: Given): Stored {
      const live = find(scope, object.metadata.name);
      const { uid, resourceVersion } = object.metadata;
      if (uid && uid !== live?.metadata.uid) throw new Refusal(409, "the object was removed");
      if (resourceVersion && resourceVersion !== live?.metadata.resourceVersion)
        throw new Refusal(409, "the object has been modified");
      const rest = live ? without(live, applied.get(live) ?? {}, object) : {};
      const stored = put(scope, merged(rest, object) as Given);
      applied.set(stored, object);
      return stored;
    },

    merge(scope: Scope, name: string, part: Members): Stored {
      const live = find(scope, name);
      if (!live) throw new Refusal(404, `${scope.plural} "${name}" not found`);
      const stored = put(scope, merged(live, part) as Given);
      applied.set(stored, applied.get(live) ?? {});
      return stored;
    },

    /** Returns the objects that have these labels, in the order of their keys. */
    list(scope: Scope, labels: Record<string, string>): [string, Stored][] {
      const spaces = scope.namespace ? [objectsOf(scope)] : [...spacesOf(scope).values()];
      return spaces
        .flatMap((objects) => [...objects.values()])
        .filter((object) => covers(scope, labels, object))
        .map((object): [string, Stored] => [
          `${object.metadata.namespace ?? ""}/${object.metadata.name}`,
          object,
        ])
        .sort(([one], [other]) => (one < other ? -1 : 1));
    },

    /** Returns the changes after a version; throws 410 when they are forgotten. */
    since(from: number): StoreEvent[] {
      if (from < oldest) throw new Refusal(410, `too old resource version: ${from} (${oldest})`);
      return events.slice(events.findLastIndex((event) => event.version <= from) + 1);
    },

    /** Forgets the changes so far, as etcd does after some minutes. */
    compact(): void {
      version++;
      oldest = version;
      events = [];
    },

    onChange(listener: (event: StoreEvent) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export type Store = ReturnType<typeof createStore>;

/** Returns whether an object is one that a list or a watch of `scope` with these labels is about. */
export function covers({ namespace }: Scope, labels: Record<string, string>, { metadata }: Stored): boolean {
  if (namespace && metadata.namespace !== namespace) return false;
  return Object.entries(labels).every(([name, value]) => metadata.labels?.[name] === value);
}

function getOrAdd<T>(map: Map<string, T>, key: string, make: () => T): T {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the object with the members of `part`; `null` removes one. */
function merged(object: Members, part: Members): Members {
  const result = { ...object };
  for (const [name, value] of Object.entries(part)) {
    const before = result[name];
    if (value === null) delete result[name];
    else result[name] = isMembers(value) && isMembers(before) ? merged(before, value) : value;
  }
  return result;
}

/** Returns the object without the members that were applied before and are not any longer. */
function without(object: Members, before: Members, next: Members): Members {
  const result = { ...object };
  for (const [name, value] of Object.entries(before)) {
    const [own, now] = [result[name], next[name]];
    if (!(name in next)) delete result[name];
    else if (isMembers(value) && isMembers(own) && isMembers(now)) result[name] = without(own, value, now);
  }
  return result;
}
