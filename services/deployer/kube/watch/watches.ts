import type { KubernetesObject } from "@kubernetes/client-node";
import type { Logger } from "../../shared/logger.ts";
import type { Kind, Kube } from "../client.ts";
import { type Informer, startInformer } from "./informer.ts";

/** The objects of one kind in those namespaces that were added. */
export type Watches<T> = {
  /** Begins to watch a namespace; `changed` is called for each object that it has. */
  add: (namespace: string) => void;
  remove: (namespace: string) => void;
  /** Returns the objects of a namespace as last seen, by name; none unless it was added. */
  in: (namespace: string) => ReadonlyMap<string, T>;
  /** Whether a namespace was added and has been read: what is not in it does not exist. */
  isRead: (namespace: string) => boolean;
  /** Resolves once an added namespace has been read. */
  synced: (namespace: string) => Promise<void>;
  /** Resolves once reading an added namespace was tried. */
  tried: (namespace: string) => Promise<void>;
  stop: () => Promise<void>;
};

/** `cluster`: one watch of a kind for all namespaces, which needs rights in all of them. `namespaces`: one for each. */
export type WatchScope = "cluster" | "namespaces";

export type WatchOptions<T> = {
  scope: WatchScope;
  labels: string;
  /** As for an informer. */
  keep?: (object: T) => T;
  /** Called for each object of an added namespace that was added, changed or deleted, once `in` shows it. */
  changed: (object: T) => void;
  log: Logger;
};

/** Watches the objects of a kind that have these labels, in the way that the deployer has rights to. */
export function startWatches<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  options: WatchOptions<T>,
): Watches<T> {
  return options.scope === "cluster"
    ? watchCluster(kube, kind, options)
    : watchNamespaces(kube, kind, options);
}

const NONE = new Map<string, never>();

function watchNamespaces<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  options: WatchOptions<T>,
): Watches<T> {
  const informers = new Map<string, Informer<T>>();
  const remove = (namespace: string) => {
    const informer = informers.get(namespace);
    informers.delete(namespace);
    return informer?.stop();
  };
  return {
    add(namespace) {
      if (!informers.has(namespace))
        informers.set(namespace, startInformer(kube, kind, { ...options, namespace }));
    },
    remove: (namespace) => void remove(namespace),
    in: (namespace) => informers.get(namespace)?.objects ?? NONE,
    isRead: (namespace) => informers.get(namespace)?.isSynced() ?? false,
    synced: async (namespace) => informers.get(namespace)?.synced,
    tried: async (namespace) => informers.get(namespace)?.tried,
    stop: async () => void (await Promise.all([...informers.keys()].map(remove))),
  };
}

function watchCluster<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  { labels, keep, log, changed }: WatchOptions<T>,
): Watches<T> {
  const added = new Set<string>();
  /** By namespace, those of others too. */
  const objects = new Map<string, Map<string, T>>();
  const informer = startInformer(kube, kind, {
    labels,
    keep,
    log,
    changed(object, gone) {
      const { namespace = "", name = "" } = object.metadata ?? {};
      const here = objects.get(namespace) ?? new Map<string, T>();
      if (gone) here.delete(name);
      else here.set(name, object);
      if (here.size > 0) objects.set(namespace, here);
      else objects.delete(namespace);
      if (added.has(namespace)) changed(object);
    },
  });
  const all = (namespace: string) => (added.has(namespace) && objects.get(namespace)) || NONE;
  return {
    add(namespace) {
      if (added.has(namespace)) return;
      added.add(namespace);
      for (const object of all(namespace).values()) changed(object);
    },
    remove: (namespace) => void added.delete(namespace),
    in: all,
    isRead: (namespace) => added.has(namespace) && informer.isSynced(),
    synced: () => informer.synced,
    tried: () => informer.tried,
    stop: informer.stop,
  };
}
