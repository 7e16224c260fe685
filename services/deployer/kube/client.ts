import {
  ApiException,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  PatchStrategy,
  type RequestContext,
  type V1DeleteOptions,
  type V1ObjectMeta,
} from "@kubernetes/client-node";
import { createSemaphore } from "../../kit/concurrency/semaphore.ts";

/** A kind of object, in the API's words. */
export type Kind<T extends KubernetesObject> = {
  apiVersion: string;
  kind: string;
  /** The last segment of its path, for watches. */
  plural: string;
  /** Where the cluster does not have it, it has no objects; of all other kinds that is a failure. */
  optional?: true;
  /** Never set: ties the type of the objects to their kind. */
  readonly of?: T;
};

/** An object as a client sends it; Kubernetes fills in the rest. */
export type Sent<T> = Omit<T, "status"> & { metadata: { name: string; namespace?: string } };

export type Kube = ReturnType<typeof connectKube>;

/** Owns the fields that Berth sets by server-side apply. */
const FIELD_MANAGER = "berth";
const METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/** How long one request to the API may take; watches and followed logs have limits of their own. */
const REQUEST_MS = 30_000;
/** How many lists a process reads at once, also when it begins to watch a thousand namespaces. */
const LISTS_AT_ONCE = 20;

/**
 * Returns a client for the cluster that this process runs in, or that KUBECONFIG names. Calls fail with the library's
 * `ApiException`; `isStatus` tells one from another. A request without an answer fails after `requestMs`.
 */
export function connectKube(config = defaultConfig(), requestMs = REQUEST_MS) {
  prepareRequests(config, requestMs);
  const api = KubernetesObjectApi.makeApiClient(config);
  const metadataApi = config.makeApiClient(MetadataApi);

  return {
    config,
    requestMs,
    /** Runs a read that many parts of a process begin together. */
    inTurn: createSemaphore(LISTS_AT_ONCE),
    /**
     * Sets these fields of an object and creates it if it does not exist; fields that others manage stay. Fails with
     * 409 when `metadata.resourceVersion` is given and the object has changed since, or `metadata.uid` and it is gone:
     * without the uid, one that was removed meanwhile would be created again.
     */
    apply<T extends KubernetesObject>(kind: Kind<T>, object: Sent<T>): Promise<T> {
      const whole = withKind(kind, object);
      return api.patch(whole, undefined, undefined, FIELD_MANAGER, true, PatchStrategy.ServerSideApply);
    },

    /** Creates an object; fails with 409 when one of this name exists. */
    create<T extends KubernetesObject>(kind: Kind<T>, object: Sent<T>): Promise<T> {
      return api.create(withKind(kind, object), undefined, undefined, FIELD_MANAGER);
    },

    /** Merges fields into an existing object; fails with 404 when there is none. `dryRun`: only asks whether it may. */
    merge<T extends KubernetesObject>(
      kind: Kind<T>,
      object: object & { metadata: { name: string } },
      { dryRun = false } = {},
    ): Promise<T> {
      const [part, dry] = [withKind(kind, object), dryRun ? "All" : undefined];
      return api.patch(part, undefined, dry, FIELD_MANAGER, undefined, PatchStrategy.MergePatch);
    },

    get<T extends KubernetesObject>(kind: Kind<T>, name: string, namespace?: string): Promise<T | undefined> {
      return undefinedIfMissing(api.read<T>(withKind(kind, { metadata: { name, namespace } }) as never));
    },

    /** Returns all objects of a kind that have these labels, and the resource version of the list. */
    async list<T extends KubernetesObject>(
      { apiVersion, kind, optional }: Kind<T>,
      { namespace, labels }: { namespace?: string; labels?: string } = {},
    ): Promise<{ items: T[]; version: string }> {
      const none = undefined; // the call takes ten arguments by position
      const items: T[] = [];
      for (let next: string | undefined; ; ) {
        const asked = api.list<T>(apiVersion, kind, namespace, none, none, none, none, labels, 500, next);
        const page = await (optional ? undefinedIfMissing(asked) : asked);
        items.push(...(page?.items ?? []));
        next = page?.metadata?._continue || undefined;
        if (!next) return { items, version: page?.metadata?.resourceVersion ?? "" };
      }
    },

    /** As `list`, but the API sends the metadata alone: the content of Secrets stays where it is. */
    async listMetadata(
      { apiVersion, kind, optional }: Kind<KubernetesObject>,
      { namespace, labels }: { namespace: string; labels: string },
    ): Promise<V1ObjectMeta[]> {
      const none = undefined;
      const asked = metadataApi.list(apiVersion, kind, namespace, none, none, none, none, labels);
      const list = await (optional ? undefinedIfMissing(asked) : asked);
      // An empty list of this form has null for its items.
      return (list?.items ?? []).map(({ metadata }) => metadata ?? {});
    },

    /** Returns whether the cluster has a kind. */
    async serves(kind: Kind<KubernetesObject>): Promise<boolean> {
      return (await undefinedIfMissing(metadataApi.find(kind))) !== undefined;
    },

    /** Deletes an object and what it owns; one that does not exist is fine. */
    async remove(
      kind: Kind<KubernetesObject>,
      name: string,
      namespace?: string,
      options: V1DeleteOptions = { propagationPolicy: "Background" },
    ): Promise<void> {
      const which = withKind(kind, { metadata: { name, namespace } });
      await undefinedIfMissing(
        api.delete(which, undefined, undefined, undefined, undefined, undefined, options),
      );
    },
  };
}

class MetadataApi extends KubernetesObjectApi {
  find({ apiVersion, kind }: Kind<KubernetesObject>) {
    return this.resource(apiVersion, kind);
  }

  protected override requestPromise<T extends KubernetesObject>(
    context: RequestContext,
    type?: string,
  ): Promise<T> {
    // With a type it asks which kinds there are.
    if (type === undefined) context.setHeaderParam("Accept", METADATA_ONLY);
    return super.requestPromise(context, type);
  }
}

function withKind<T extends KubernetesObject>({ apiVersion, kind }: Kind<T>, object: object): T {
  return { ...object, apiVersion, kind } as T;
}

function defaultConfig(): KubeConfig {
  const config = new KubeConfig();
  config.loadFromDefault();
  return config;
}

/** Returns whether an error is a response of the API with one of these HTTP statuses. */
export function isStatus(error: unknown, ...statuses: number[]): boolean {
  const code = error instanceof ApiException ? error.code : (error as { statusCode?: number })?.statusCode;
  return code !== undefined && statuses.includes(code);
}

/** Returns whether nobody else has written the data of a Secret or ConfigMap, according to its metadata. */
export function hasOwnData(metadata: V1ObjectMeta | undefined): boolean {
  const writers = metadata?.managedFields?.filter(({ fieldsV1 }) => fieldsV1 && "f:data" in fieldsV1) ?? [];
  return writers.every(({ manager }) => manager === FIELD_MANAGER);
}

/** Returns undefined where the cluster does not have the object, or knows nothing of its kind. */
async function undefinedIfMissing<T>(response: Promise<T>): Promise<T | undefined> {
  try {
    return await response;
  } catch (error) {
    // The library reports a kind that the API does not list with an error of its own.
    const isUnknownKind = (error as Error).message?.startsWith("Unrecognized API version and kind");
    if (isUnknownKind || isStatus(error, 404)) return undefined;
    throw error;
  }
}

/**
 * The library makes a pool of connections for each request, and waits for five minutes. Here requests have a deadline,
 * and share a pool for a minute: short enough for certificates that a credential plugin renews.
 */
function prepareRequests(config: KubeConfig, requestMs: number): void {
  const authenticate = config.applySecurityAuthentication.bind(config);
  let shared: { pool: ReturnType<RequestContext["getDispatcher"]>; until: number } | undefined;
  config.applySecurityAuthentication = async (context) => {
    await authenticate(context);
    if (!shared || shared.until < Date.now())
      shared = { pool: context.getDispatcher(), until: Date.now() + 60_000 };
    if (shared.pool) context.setDispatcher(shared.pool);
    context.setSignal(deadline(requestMs));
  };
}

/** As AbortSignal.timeout, but with an error that has a place for what the library adds to its message. */
function deadline(ms: number): AbortSignal {
  const controller = new AbortController();
  const late = () => controller.abort(new Error(`the Kubernetes API did not answer within ${ms} ms`));
  setTimeout(late, ms).unref();
  return controller.signal;
}
