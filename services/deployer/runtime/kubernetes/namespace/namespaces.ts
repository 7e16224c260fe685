import type { V1Namespace } from "@kubernetes/client-node";
import { Namespace } from "../../../kube/kinds.ts";
import { label, managed, namespaceOf, selector } from "../../../kube/names.ts";
import { type Informer, startInformer } from "../../../kube/watch/informer.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { isOurs } from "./apply-namespace.ts";
import { createNamespaceRunner } from "./ensure-namespace.ts";
import { type Environment, withMark, withPlan } from "./namespace-manifests.ts";
import { needsReapply } from "./needs-apply.ts";

export type Environments = ReturnType<typeof createEnvironments>;

type Watcher = {
  onNamespaceAdded: (namespace: string) => void;
  onNamespaceRemoved: (namespace: string) => void;
};

/** The namespaces of environments: created when they are first needed, watched once `start` was called, and removed. */
export function createEnvironments(options: KubernetesRuntimeOptions) {
  const { kube, log, namespacePrefix } = options;
  const watchers: Watcher[] = [];
  let informer: Informer<V1Namespace> | undefined;
  const all = () => [...(informer?.objects.values() ?? [])].filter((one) => isOurs(one, options));
  const find = (name: string) => {
    const namespace = informer?.objects.get(name);
    return namespace && isOurs(namespace, options) ? namespace : undefined;
  };
  const namespaces = () => all().map(({ metadata }) => metadata?.name ?? "");
  const { learnPlan, ensureNamespace, invalidate, forget, forgetPlan } = createNamespaceRunner(options, find);

  function onChange(namespace: V1Namespace, gone: boolean): void {
    const name = namespace.metadata?.name ?? "";
    if (!isOurs(namespace, options)) return;
    if (gone) forget(name);
    for (const watcher of watchers) (gone ? watcher.onNamespaceRemoved : watcher.onNamespaceAdded)(name);
  }

  /** Applies a namespace again with the plan that the account has by now: it took a while to come to this one. */
  async function applyAgain(environment: Environment): Promise<void> {
    await learnPlan(environment.environmentId);
    await ensureNamespace(environment, { force: true });
  }

  return {
    /** Begins to watch; resolves once the existing namespaces are known. */
    async start(): Promise<void> {
      informer = startInformer(kube, Namespace, { labels: selector(managed), log, changed: onChange });
      await informer.synced;
    },

    /** Asks what the plan of an environment's account allows; not in a transaction. */
    learnPlan,

    /** Creates the environment's namespace with all it needs, once for each plan, and returns its name. */
    ensure: (environment: Environment): Promise<string> => ensureNamespace(environment),

    /** Applies the plan that was learned to an existing namespace. */
    async follow(name: string): Promise<void> {
      const live = informer?.objects.get(name);
      if (live) await ensureNamespace(environmentOf(live));
    },

    /**
     * Applies those existing namespaces again whose desired state has changed; and in each turn (0 to 9) a tenth of all,
     * so that what somebody removed is restored without a burst of requests.
     */
    async reapply(turn?: number): Promise<void> {
      const plans = await options.plansOf(all().map((live) => environmentOf(live).environmentId));
      for (const live of all()) {
        const environment = environmentOf(live);
        const desired = withMark(environment, withPlan(options, plans.get(environment.environmentId)));
        if (!needsReapply(live, desired, environment, turn)) continue;
        await applyAgain(environment).catch((err) =>
          log.warn(
            { err, namespace: live.metadata?.name },
            "could not bring a namespace to its desired state; retrying",
          ),
        );
      }
    },

    /** Makes the next `ensure` apply the namespace again. */
    invalidate,

    /** Returns the names of the environments' namespaces. */
    namespaces,

    namespaceOf: (environmentId: string) => namespaceOf(namespacePrefix, environmentId),

    /** Whether an environment's namespace exists. */
    has: (name: string): boolean => find(name) !== undefined,

    /** Returns the ids of the environments that have a namespace. */
    list: (): string[] => all().map(({ metadata }) => metadata?.labels?.[label("environment")] ?? ""),

    /** Requests the deletion of an environment's namespace and all that it holds, which takes seconds. */
    async remove(environmentId: string): Promise<void> {
      const name = namespaceOf(namespacePrefix, environmentId);
      const namespace = await kube.get(Namespace, name);
      if (!namespace || !isOurs(namespace, options) || namespace.metadata?.deletionTimestamp) return;
      forget(name);
      forgetPlan(environmentId);
      await kube.remove(Namespace, name);
      log.info({ environmentId, namespace: name }, "removed the namespace of an environment");
    },

    /** Calls the watcher for each namespace that exists, is added or removed. */
    watch(watcher: Watcher): void {
      watchers.push(watcher);
      for (const name of namespaces()) watcher.onNamespaceAdded(name);
    },

    stop: async () => informer?.stop(),
  };
}

function environmentOf({ metadata }: V1Namespace): Environment {
  const of = (what: "account" | "project" | "environment") => metadata?.labels?.[label(what)] ?? "";
  return { accountId: of("account"), projectId: of("project"), environmentId: of("environment") };
}
