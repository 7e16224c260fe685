import type { V1Namespace } from "@kubernetes/client-node";
import { retry } from "../../../../kit/retry.ts";
import { isStatus } from "../../../kube/client.ts";
import { startInformer } from "../../../kube/informer.ts";
import { Namespace, RoleBinding } from "../../../kube/kinds.ts";
import { label, managed, namespaceOf, selector } from "../../../kube/names.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import {
  bindingFor,
  type Environment,
  environmentManifests,
  INSTALLATION,
  namespaceFor,
} from "./namespace-manifests.ts";

export type Environments = ReturnType<typeof createEnvironments>;

/** A new RoleBinding takes a moment until every server of the API knows it. */
const RIGHTS_MS = 10_000;

type Watcher = {
  onNamespaceAdded: (namespace: string) => void;
  onNamespaceRemoved: (namespace: string) => void;
};

/** The namespaces of environments: created when they are first needed, watched, and removed. */
export function createEnvironments(options: KubernetesRuntimeOptions) {
  const { kube, log, namespacePrefix } = options;
  /** What this process has applied, by the name of the namespace. */
  const applied = new Map<string, Promise<void>>();
  const watchers: Watcher[] = [];
  const labels = selector(managed);

  const isOurs = ({ metadata }: V1Namespace) => {
    const { [label("environment")]: environmentId, [INSTALLATION]: installation } = metadata?.labels ?? {};
    if (environmentId === undefined) return false;
    // One without the annotation receives it with the next `reapply`.
    if (installation !== undefined && installation !== options.claimsNamespace) return false;
    return metadata?.name === namespaceOf(namespacePrefix, environmentId);
  };
  const informer = startInformer(kube, Namespace, { labels, log, changed: onChange });

  function onChange(namespace: V1Namespace, gone: boolean): void {
    const name = namespace.metadata?.name ?? "";
    if (!isOurs(namespace)) return;
    if (gone) applied.delete(name);
    for (const watcher of watchers) (gone ? watcher.onNamespaceRemoved : watcher.onNamespaceAdded)(name);
  }

  async function apply(environment: Environment): Promise<void> {
    const namespace = namespaceFor(environment, options);
    const live = await kube.get(Namespace, namespace.metadata.name);
    if (live?.status?.phase === "Terminating") throw new Error(`${namespace.metadata.name} is being removed`);
    if (live && !isOurs(live)) throw new Error(`${namespace.metadata.name} belongs to somebody else`);
    await kube.apply(Namespace, namespace);
    const binding = bindingFor(environment, options);
    if (binding) await kube.apply(RoleBinding, binding);
    const retryIf = (error: unknown) => binding !== undefined && isStatus(error, 403);
    for (const { kind, object } of environmentManifests(environment, options))
      await retry(() => kube.apply(kind, object), { everyMs: 100, forMs: RIGHTS_MS, retryIf });
  }

  return {
    /** Resolves once the existing namespaces are known. */
    synced: informer.synced,

    /** Creates the environment's namespace with all it needs, once in this process, and returns its name. */
    async ensure(environment: Environment): Promise<string> {
      const name = namespaceOf(namespacePrefix, environment.environmentId);
      const applying = applied.get(name) ?? apply(environment);
      applied.set(name, applying);
      await applying.catch((error) => {
        applied.delete(name);
        throw error;
      });
      return name;
    },

    /** Brings every existing namespace to its desired state. */
    async reapply(): Promise<void> {
      for (const { metadata } of [...informer.objects.values()].filter(isOurs)) {
        if (metadata?.deletionTimestamp) continue;
        const of = (name: "account" | "project" | "environment") => metadata?.labels?.[label(name)] ?? "";
        await apply({ accountId: of("account"), projectId: of("project"), environmentId: of("environment") });
      }
    },

    /** Makes the next `ensure` apply the namespace again. */
    invalidate(namespace: string): void {
      applied.delete(namespace);
    },

    /** Returns the names of the environments' namespaces. */
    namespaces: (): string[] =>
      [...informer.objects.values()].filter(isOurs).map(({ metadata }) => metadata?.name ?? ""),

    /** Returns the ids of the environments that have a namespace. */
    list: (): string[] =>
      [...informer.objects.values()]
        .filter(isOurs)
        .map(({ metadata }) => metadata?.labels?.[label("environment")] ?? ""),

    /** Requests the deletion of an environment's namespace and all that it holds, which takes seconds. */
    async remove(environmentId: string): Promise<void> {
      const name = namespaceOf(namespacePrefix, environmentId);
      const namespace = await kube.get(Namespace, name);
      if (!namespace || !isOurs(namespace) || namespace.metadata?.deletionTimestamp) return;
      applied.delete(name);
      await kube.remove(Namespace, name);
      log.info({ environmentId, namespace: name }, "removed the namespace of an environment");
    },

    /** Calls the watcher for each namespace that exists, is added or removed. */
    watch(watcher: Watcher): void {
      watchers.push(watcher);
      for (const name of this.namespaces()) watcher.onNamespaceAdded(name);
    },

    stop: informer.stop,
  };
}
