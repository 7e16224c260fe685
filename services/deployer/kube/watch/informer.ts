import { setTimeout as delay } from "node:timers/promises";
import { ApiException, type KubernetesObject } from "@kubernetes/client-node";
import { Counter } from "prom-client";
import type { Logger } from "../../shared/logger.ts";
import { isStatus, type Kind, type Kube } from "../client.ts";
import { openStream } from "../stream.ts";
import { pathOf, readList } from "./read-list.ts";

export type Informer<T> = {
  /** The objects as last seen, by name, or by `namespace/name`. Those of a namespace that can no longer be read stay. */
  objects: ReadonlyMap<string, T>;
  /** Resolves once the first list has been read. */
  synced: Promise<void>;
  /** Resolves once the first list has been read or has failed. */
  tried: Promise<void>;
  /** Whether a list has been read: what is not in `objects` does not exist. */
  isSynced: () => boolean;
  stop: () => Promise<void>;
};

type Options<T> = {
  /** Omitted for kinds that have no namespace, and for all namespaces. */
  namespace?: string;
  labels: string;
  /** Returns what is kept of an object besides who set which field; all of it unless given. */
  keep?: (object: T) => T;
  /** Called for each object that was added, changed or deleted (`gone`), once `objects` shows it. */
  changed: (object: T, gone: boolean) => void;
  log: Logger;
  random?: () => number;
};

type WatchEvent<T> = { type: string; object: T & { code?: number; message?: string } };

/** Not those that the server ends in time, nor those whose version is too old: both are a cluster's everyday life. */
const restarts = new Counter({
  name: "berth_watch_restarts_total",
  help: "Watches of the cluster that broke or were refused and are begun again, by kind",
  labelNames: ["kind"],
});

/** The server sends a bookmark each minute: a watch that is quiet for three is dead. */
const QUIET_MS = 3 * 60_000;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

/**
 * Returns how long to wait before the next try after this number of failures in a row, in ms. Any part of a span that
 * grows: all watches of all processes end together when a server does, and must not come back together.
 */
export function reconnectPause(failures: number, random = Math.random): number {
  return random() * Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1));
}

/**
 * Keeps a copy of the objects of a kind, in one namespace or in all: a list, then a watch from its resource version. A watch that
 * ends or breaks resumes where it was; one whose version is too old begins with a new list, so that no change stays
 * unseen. What cannot be read is not empty: it stays as it was, and the log says why.
 */
export function startInformer<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  options: Options<T>,
): Informer<T> {
  const { namespace, labels, keep, changed, log, random } = options;
  const objects = new Map<string, T>();
  const stopping = new AbortController();
  const { signal } = stopping;
  const synced = Promise.withResolvers<void>();
  const tried = Promise.withResolvers<void>();
  const path = pathOf(kind, namespace);
  let isSynced = false;
  /** The resource version to watch from; undefined when a list is needed. */
  let version: string | undefined;
  /** In a row. */
  let failures = 0;
  /** The last failure, as it is logged. */
  let reason: string | undefined;

  function keyOf({ metadata }: T): string {
    const { namespace: own, name = "" } = metadata ?? {};
    return namespace || !own ? name : `${own}/${name}`;
  }

  function reduce(object: T): T {
    // Who set which field is as large as the rest of an object.
    delete object.metadata?.managedFields;
    return keep ? keep(object) : object;
  }

  function update(object: T, gone: boolean): void {
    const key = keyOf(object);
    if (gone) objects.delete(key);
    else objects.set(key, object);
    changed(object, gone);
  }

  async function list(): Promise<void> {
    const read = await kube.inTurn(() => readList(kube, kind, { namespace, labels, keep: reduce, signal }));
    if (signal.aborted) return;
    const keys = new Set(read.items.map(keyOf));
    for (const [key, object] of [...objects]) if (!keys.has(key)) update(object, true);
    for (const object of read.items) {
      const known = objects.get(keyOf(object));
      if (known?.metadata?.resourceVersion !== object.metadata?.resourceVersion) update(object, false);
    }
    version = read.version;
    isSynced = true;
    synced.resolve();
    tried.resolve();
  }

  /** Watches until the server ends it; fails when it breaks. */
  async function watch(): Promise<void> {
    const query = { watch: true, labelSelector: labels, resourceVersion: version, allowWatchBookmarks: true };
    for await (const line of await openStream(kube, path, query, { quietMs: QUIET_MS, signal })) {
      const { type, object } = JSON.parse(line) as WatchEvent<T>;
      if (type === "ERROR") throw new ApiException(object.code ?? 0, object.message ?? "", object, {});
      version = object.metadata?.resourceVersion;
      if (type === "ADDED" || type === "MODIFIED") update(reduce(object), false);
      else if (type === "DELETED") update(reduce(object), true);
      worked();
    }
    worked();
  }

  function worked(): void {
    if (reason) log.info({ namespace, kind: kind.kind }, "what could not be read is being watched again");
    reason = undefined;
    failures = 0;
  }

  function failed(error: unknown): void {
    failures++;
    // Too old; what a server says that was restored to a time before this version; and a kind that is gone.
    if (isStatus(error, 400, 404, 410, 504)) version = undefined;
    // A new namespace is seen a moment before this process has its rights there.
    if (isStatus(error, 403) && failures === 1) return;
    if (!isStatus(error, 410)) restarts.inc({ kind: kind.kind });
    // The message of a refusal has the time in it.
    const why = error instanceof ApiException ? `${error.code}` : `${(error as Error).message}`;
    if (isStatus(error, 410) || why === reason) return;
    reason = why;
    log.warn({ err: error, namespace, kind: kind.kind }, "a watch failed; it is being repeated");
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      try {
        if (version === undefined) await list();
        if (!signal.aborted) await watch();
      } catch (error) {
        if (!signal.aborted) failed(error);
      }
      tried.resolve();
      await delay(reconnectPause(failures, random), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  const running = run();
  return {
    objects,
    synced: synced.promise,
    tried: tried.promise,
    isSynced: () => isSynced,
    stop: async () => {
      stopping.abort();
      synced.resolve();
      await running;
    },
  };
}
