import { json } from "node:stream/consumers";
import type { KubernetesObject } from "@kubernetes/client-node";
import { isStatus, type Kind, type Kube } from "../client.ts";
import { openResponse } from "../stream.ts";

type Page<T> = { items: T[]; metadata: { resourceVersion: string; continue?: string } };

const PAGE = 500;

/** Returns the path of the objects of a kind, in one namespace or in all. */
export function pathOf(
  { apiVersion, plural }: Kind<KubernetesObject>,
  namespace: string | undefined,
): string {
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return `${group}/${namespace ? `namespaces/${namespace}/` : ""}${plural}`;
}

/**
 * Reads all objects of a kind that have these labels, and the resource version of the list. `keep` is called with each as
 * the API sends it, a page at a time: what it leaves out takes no memory. The library's lists hold each object twice
 * while they turn all of its members into classes and dates.
 */
export async function readList<T extends KubernetesObject>(
  kube: Kube,
  kind: Kind<T>,
  given: { namespace?: string; labels: string; keep: (object: T) => T; signal: AbortSignal },
): Promise<{ items: T[]; version: string }> {
  const { namespace, labels, keep, signal } = given;
  const items: T[] = [];
  for (let next: string | undefined; ; ) {
    const query = { labelSelector: labels, limit: PAGE, continue: next };
    const page = await readPage<T>(kube, pathOf(kind, namespace), query, signal).catch((error) => {
      if (kind.optional && isStatus(error, 404)) return undefined;
      throw error;
    });
    items.push(...(page?.items.map(keep) ?? []));
    next = page?.metadata.continue || undefined;
    if (!next) return { items, version: page?.metadata.resourceVersion ?? "" };
  }
}

async function readPage<T>(
  kube: Kube,
  path: string,
  query: Parameters<typeof openResponse>[2],
  signal: AbortSignal,
): Promise<Page<T>> {
  return (await json(await openResponse(kube, path, query, { signal }))) as Page<T>;
}
