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
  isSameMark,
  namespaceFor,
  withMark,
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

  /** Applies a namespace and what it holds, and last the mark that says so; one that has it already keeps it. */
  async function apply(environment: Environment): Promise<void> {
    const namespace = namespaceFor(environment, options);
    const live = await kube.get(Namespace, namespace.metadata.name);
    if (live?.status?.phase === "Terminating") throw new Error(`${namespace.metadata.name} is being removed`);
    if (live && !isOurs(live)) throw new Error(`${namespace.metadata.name} belongs to somebody else`);
    const marked = withMark(environment, options);
    const isMarked = live !== undefined && isSameMark(live, marked);
    await kube.apply(Namespace, isMarked ? marked : namespace);
    const binding = bindingFor(environment, options);
    if (binding) await kube.apply(RoleBinding, binding);
    const retryIf = (error: unknown) => binding !== undefined && isStatus(error, 403);
    for (const { kind, object } of environmentManifests(environment, options))
      await retry(() => kube.apply(kind, object), { everyMs: 100, forMs: RIGHTS_MS, retryIf });
    if (!isMarked) await kube.apply(Namespace, marked);
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

    /**
     * Brings existing namespaces to their desired state: all, so that what somebody removed comes back, or only those to
     * which another state was applied.
     */
    async reapply(which: "all" | "other state"): Promise<void> {
      for (const live of [...informer.objects.values()].filter(isOurs)) {
        const { labels: own, deletionTimestamp, name } = live.metadata ?? {};
        if (deletionTimestamp) continue;
        const of = (what: "account" | "project" | "environment") => own?.[label(what)] ?? "";
        const environment = {
          accountId: of("account"),
          projectId: of("project"),
          environmentId: of("environment"),
        };
        if (which === "other state" && isSameMark(live, withMark(environment, options))) continue;
        await apply(environment).catch((err) =>
          log.warn({ err, namespace: name }, "could not bring a namespace to its desired state; retrying"),
        );
      }
    },

    /** Makes the next `ensure` apply the namespace again. */
    invalidate(namespace: string): void {
      applied.delete(namespace);
    },

    /** Returns the names of the environments' namespaces. */
    namespaces: (): string[] =>
      [...informer.objects.values()].filter(isOurs).map(({ metadata }) => metadata?.name ?? ""),

    namespaceOf: (environmentId: string) => namespaceOf(namespacePrefix, environmentId),

    /** Whether an environment's namespace exists. */
    has(name: string): boolean {
      const namespace = informer.objects.get(name);
      return namespace !== undefined && isOurs(namespace);
    },

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
