import { setTimeout as delay } from "node:timers/promises";
import { type KubernetesObject, Watch } from "@kubernetes/client-node";
import type { Logger } from "../runtime/port.ts";
import { isStatus, type Kind, type Kube } from "./client.ts";

export type Informer<T> = {
  /** The objects as last seen, by name. */
  objects: ReadonlyMap<string, T>;
  /** Resolves once the first list has been read. */
  synced: Promise<void>;
  stop: () => Promise<void>;
};

type Options<T> = {
  /** Omitted for kinds that have no namespace. */
  namespace?: string;
  labels: string;
  /** Called for each object that was added, changed or deleted (`gone`), once `objects` shows it. */
  changed: (object: T, gone: boolean) => void;
  log: Logger;
};

const RETRY_MS = 1_000;

/**
 * Keeps a copy of the objects of a kind in one namespace: a list, then a watch from its resource version. A watch that
 * ends resumes where it was; one whose version is too old begins with a new list, so that no change stays unseen.
 */
export function startInformer<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  options: Options<T>,
): Informer<T> {
  const { namespace, labels, changed, log } = options;
  const objects = new Map<string, T>();
  const stopping = new AbortController();
  const { promise: synced, resolve: isSynced } = Promise.withResolvers<void>();
  const group = kind.apiVersion.includes("/") ? `/apis/${kind.apiVersion}` : `/api/${kind.apiVersion}`;
  const path = `${group}/${namespace ? `namespaces/${namespace}/` : ""}${kind.plural}`;

  function update(object: T, gone: boolean): void {
    const name = object.metadata?.name ?? "";
    if (gone) objects.delete(name);
    else objects.set(name, object);
    changed(object, gone);
  }

  /** Reads all objects and returns the resource version to watch from. */
  async function list(): Promise<string> {
    const { items, version } = await kube.list(kind, { namespace, labels });
    const names = new Set(items.map((one) => one.metadata?.name));
    for (const [name, object] of [...objects]) if (!names.has(name)) update(object, true);
    for (const object of items) {
      const known = objects.get(object.metadata?.name ?? "");
      if (known?.metadata?.resourceVersion !== object.metadata?.resourceVersion) update(object, false);
    }
    isSynced();
    return version;
  }

  /**
   * Watches until the connection ends and returns the resource version to resume from; undefined when that is too old.
   */
  async function watchFrom(from: string): Promise<string | undefined> {
    let version: string | undefined = from;
    const { promise: ended, resolve: end } = Promise.withResolvers<unknown>();
    const connection = await new Watch(kube.config).watch(
      path,
      { labelSelector: labels, resourceVersion: from, allowWatchBookmarks: true },
      (phase, object) => {
        if (phase === "ERROR") version = undefined;
        else version = object.metadata.resourceVersion;
        if (phase === "ADDED" || phase === "MODIFIED") update(object, false);
        else if (phase === "DELETED") update(object, true);
      },
      end,
    );
    const abort = () => connection.abort();
    stopping.signal.addEventListener("abort", abort);
    if (stopping.signal.aborted) abort();
    const error = await ended;
    stopping.signal.removeEventListener("abort", abort);
    if (isStatus(error, 410)) return undefined;
    // The client closes a connection that was quiet for long: no error.
    if (error && !stopping.signal.aborted && (error as Error).name !== "TimeoutError") throw error;
    return version;
  }

  async function run(): Promise<void> {
    let version: string | undefined;
    while (!stopping.signal.aborted) {
      try {
        version = await watchFrom(version ?? (await list()));
      } catch (error) {
        version = undefined;
        // A deleted namespace holds nothing, and the permission to read it went with it.
        if (isStatus(error, 403, 404)) {
          for (const object of [...objects.values()]) update(object, true);
          isSynced();
        } else log.warn({ err: error, namespace, kind: kind.kind }, "a watch failed; it is being repeated");
        await delay(RETRY_MS, undefined, { signal: stopping.signal, ref: false }).catch(() => {});
      }
    }
  }

  const running = run();
  return {
    objects,
    synced,
    stop: async () => {
      stopping.abort();
      isSynced();
      await running;
    },
  };
}
