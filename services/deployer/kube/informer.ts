import { setTimeout as delay } from "node:timers/promises";
import { type KubernetesObject, Watch } from "@kubernetes/client-node";
import type { Logger } from "../runtime/port.ts";
import { isStatus, type Kind, type Kube } from "./client.ts";

export type Informer<T> = {
  /** What is known now, by name. */
  objects: ReadonlyMap<string, T>;
  /** Resolves once the first list has been read. */
  synced: Promise<void>;
  stop: () => Promise<void>;
};

type Options<T> = {
  /** Without it, kinds that are in no namespace. */
  namespace?: string;
  labels: string;
  /** Called for each object that came, changed or went (`gone`), after `objects` shows it. */
  changed: (object: T, gone: boolean) => void;
  log: Logger;
};

const RETRY_MS = 1_000;

/**
 * Keeps the objects of a kind in one namespace at hand: a list, then a watch from there. A watch that breaks
 * goes on where it stood; one that stood too long begins with a new list, so nothing is missed for good.
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

  function take(object: T, gone: boolean): void {
    const name = object.metadata?.name ?? "";
    if (gone) objects.delete(name);
    else objects.set(name, object);
    changed(object, gone);
  }

  /** Reads everything; gives the version to watch from. */
  async function list(): Promise<string> {
    const page = await kube.page(kind, { namespace, labels });
    const names = new Set(page.items.map((one) => one.metadata?.name));
    for (const [name, object] of [...objects]) if (!names.has(name)) take(object, true);
    for (const object of page.items) {
      const known = objects.get(object.metadata?.name ?? "");
      if (known?.metadata?.resourceVersion !== object.metadata?.resourceVersion) take(object, false);
    }
    isSynced();
    return page.version;
  }

  /** Follows changes until the connection ends; gives the version to go on from, nothing when it is too old. */
  async function follow(from: string): Promise<string | undefined> {
    let version: string | undefined = from;
    const { promise: ended, resolve: end } = Promise.withResolvers<unknown>();
    const connection = await new Watch(kube.config).watch(
      path,
      { labelSelector: labels, resourceVersion: from, allowWatchBookmarks: true },
      (phase, object) => {
        if (phase === "ERROR") version = undefined;
        else version = object.metadata.resourceVersion;
        if (phase === "ADDED" || phase === "MODIFIED") take(object, false);
        else if (phase === "DELETED") take(object, true);
      },
      end,
    );
    const abort = () => connection.abort();
    stopping.signal.addEventListener("abort", abort);
    if (stopping.signal.aborted) abort();
    const error = await ended;
    stopping.signal.removeEventListener("abort", abort);
    if (isStatus(error, 410)) return undefined;
    // A connection that was quiet for long is closed by the client: that is no error.
    if (error && !stopping.signal.aborted && (error as Error).name !== "TimeoutError") throw error;
    return version;
  }

  async function run(): Promise<void> {
    let version: string | undefined;
    while (!stopping.signal.aborted) {
      try {
        version = await follow(version ?? (await list()));
      } catch (error) {
        version = undefined;
        // A namespace that is gone holds nothing, and the permission to look into it went with it.
        if (isStatus(error, 403, 404)) {
          for (const object of [...objects.values()]) take(object, true);
          isSynced();
        } else log.warn({ err: error, namespace, kind: kind.kind }, "a watch broke");
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
