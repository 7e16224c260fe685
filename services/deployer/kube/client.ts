import {
  ApiException,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  PatchStrategy,
  type RequestContext,
  type V1DeleteOptions,
} from "@kubernetes/client-node";

/** One kind of object, as the API names it. */
export type Kind<T extends KubernetesObject> = {
  apiVersion: string;
  kind: string;
  /** The last part of its path, for watches. */
  plural: string;
  /** Never set: binds the type of the objects to their kind. */
  readonly of?: T;
};

/** An object that is sent: Kubernetes fills in the rest. */
export type Sent<T> = Omit<T, "status"> & { metadata: { name: string; namespace?: string } };

export type Kube = ReturnType<typeof connectKube>;

/** Who owns the fields that Berth sets by server-side apply. */
const FIELD_MANAGER = "berth";

/**
 * The API of the cluster that this process runs in, or that KUBECONFIG names. Errors are the client's
 * `ApiException`; `isStatus` tells them apart.
 */
export function connectKube(config = defaultConfig()) {
  shareConnections(config);
  const api = KubernetesObjectApi.makeApiClient(config);

  return {
    config,
    /**
     * Brings an object to these fields, making it when it is not there; fields of others stay. With
     * `metadata.resourceVersion` it is refused (409) when somebody changed it since.
     */
    apply<T extends KubernetesObject>(kind: Kind<T>, object: Sent<T>): Promise<T> {
      const { apiVersion, kind: name } = kind;
      const whole = { ...object, apiVersion, kind: name } as unknown as T;
      return api.patch(whole, undefined, undefined, FIELD_MANAGER, true, PatchStrategy.ServerSideApply);
    },

    /** Makes an object; 409 when there is one of this name. */
    create<T extends KubernetesObject>(kind: Kind<T>, object: Sent<T>): Promise<T> {
      const { apiVersion, kind: name } = kind;
      const whole = { ...object, apiVersion, kind: name } as unknown as T;
      return api.create(whole, undefined, undefined, FIELD_MANAGER);
    },

    /** Merges fields into an object that is there; 404 when it is not. */
    merge<T extends KubernetesObject>(
      kind: Kind<T>,
      object: object & { metadata: { name: string } },
    ): Promise<T> {
      const { apiVersion, kind: name } = kind;
      const part = { ...object, apiVersion, kind: name } as unknown as T;
      return api.patch(part, undefined, undefined, FIELD_MANAGER, undefined, PatchStrategy.MergePatch);
    },

    get<T extends KubernetesObject>(kind: Kind<T>, name: string, namespace?: string): Promise<T | undefined> {
      const { apiVersion, kind: kindName } = kind;
      return orNothing(api.read<T>({ apiVersion, kind: kindName, metadata: { name, namespace } } as never));
    },

    /** Everything of a kind that carries the labels, and the version of the cluster's state it shows. */
    async page<T extends KubernetesObject>(
      kind: Kind<T>,
      { namespace, labels }: { namespace?: string; labels?: string } = {},
    ): Promise<{ items: T[]; version: string }> {
      const none = undefined; // the call takes ten arguments by position
      const items: T[] = [];
      for (let next: string | undefined; ; ) {
        const { apiVersion, kind: name } = kind;
        const page = await api.list<T>(
          apiVersion,
          name,
          namespace,
          none,
          none,
          none,
          none,
          labels,
          500,
          next,
        );
        items.push(...page.items);
        next = page.metadata?._continue || undefined;
        if (!next) return { items, version: page.metadata?.resourceVersion ?? "" };
      }
    },

    /** Removes an object with what it owns; fine when it is not there. */
    async remove<T extends KubernetesObject>(
      kind: Kind<T>,
      name: string,
      namespace?: string,
      options: V1DeleteOptions = { propagationPolicy: "Background" },
    ): Promise<void> {
      const { apiVersion, kind: kindName } = kind;
      const which = { apiVersion, kind: kindName, metadata: { name, namespace } };
      await orNothing(api.delete(which, undefined, undefined, undefined, undefined, undefined, options));
    },
  };
}

function defaultConfig(): KubeConfig {
  const config = new KubeConfig();
  config.loadFromDefault();
  return config;
}

/** Whether an error is the API's answer with one of these HTTP statuses. */
export function isStatus(error: unknown, ...statuses: number[]): boolean {
  const code = error instanceof ApiException ? error.code : (error as { statusCode?: number })?.statusCode;
  return code !== undefined && statuses.includes(code);
}

async function orNothing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

/**
 * The client makes a pool of connections for each request. One is shared for a minute: short enough for
 * certificates that a credential plugin renews.
 */
function shareConnections(config: KubeConfig): void {
  const authenticate = config.applySecurityAuthentication.bind(config);
  let shared: { pool: ReturnType<RequestContext["getDispatcher"]>; until: number } | undefined;
  config.applySecurityAuthentication = async (context) => {
    await authenticate(context);
    if (!shared || shared.until < Date.now())
      shared = { pool: context.getDispatcher(), until: Date.now() + 60_000 };
    if (shared.pool) context.setDispatcher(shared.pool);
  };
}
