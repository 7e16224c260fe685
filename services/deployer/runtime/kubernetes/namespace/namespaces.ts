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

/** A right that was just given takes a moment until every server of the API knows of it. */
const RIGHTS_MS = 10_000;

type Watcher = {
  onNamespaceAdded: (namespace: string) => void;
  onNamespaceRemoved: (namespace: string) => void;
};

/** The namespaces of environments: made when they are first needed, watched, and removed. */
export function createEnvironments(options: KubernetesRuntimeOptions) {
  const { kube, log, namespacePrefix } = options;
  const made = new Map<string, Promise<void>>();
  const watchers: Watcher[] = [];
  const labels = selector(managed);

  const isOurs = ({ metadata }: V1Namespace) => {
    const { [label("environment")]: environmentId, [INSTALLATION]: installation } = metadata?.labels ?? {};
    if (environmentId === undefined) return false;
    // One without the mark gets it at the next look.
    if (installation !== undefined && installation !== options.claimsNamespace) return false;
    return metadata?.name === namespaceOf(namespacePrefix, environmentId);
  };
  const informer = startInformer(kube, Namespace, { labels, log, changed: noticed });

  function noticed(namespace: V1Namespace, gone: boolean): void {
    const name = namespace.metadata?.name ?? "";
    if (!isOurs(namespace)) return;
    if (gone) made.delete(name);
    for (const watcher of watchers) (gone ? watcher.onNamespaceRemoved : watcher.onNamespaceAdded)(name);
  }

  async function make(environment: Environment): Promise<void> {
    const namespace = namespaceFor(environment, options);
    const live = await kube.get(Namespace, namespace.metadata.name);
    if (live?.status?.phase === "Terminating") throw new Error(`${namespace.metadata.name} is being removed`);
    if (live && !isOurs(live)) throw new Error(`${namespace.metadata.name} is a namespace of somebody else`);
    await kube.apply(Namespace, namespace);
    const binding = bindingFor(environment, options);
    if (binding) await kube.apply(RoleBinding, binding);
    const retryIf = (error: unknown) => binding !== undefined && isStatus(error, 403);
    for (const { kind, object } of environmentManifests(environment, options))
      await retry(() => kube.apply(kind, object), { everyMs: 100, forMs: RIGHTS_MS, retryIf });
  }

  return {
    /** Resolves once the namespaces that are there are known. */
    synced: informer.synced,

    /** Makes the environment's namespace with all it needs, once in this process; gives its name. */
    async ensure(environment: Environment): Promise<string> {
      const name = namespaceOf(namespacePrefix, environment.environmentId);
      const making = made.get(name) ?? make(environment);
      made.set(name, making);
      await making.catch((error) => {
        made.delete(name);
        throw error;
      });
      return name;
    },

    /** Brings every namespace that is there to what it should hold. */
    async renew(): Promise<void> {
      for (const { metadata } of [...informer.objects.values()].filter(isOurs)) {
        if (metadata?.deletionTimestamp) continue;
        const of = (name: "account" | "project" | "environment") => metadata?.labels?.[label(name)] ?? "";
        await make({ accountId: of("account"), projectId: of("project"), environmentId: of("environment") });
      }
    },

    /** Makes it again at the next `ensure`. */
    forget(namespace: string): void {
      made.delete(namespace);
    },

    /** Names of the environments' namespaces that are there. */
    namespaces: (): string[] =>
      [...informer.objects.values()].filter(isOurs).map(({ metadata }) => metadata?.name ?? ""),

    /** Ids of the environments that have a namespace. */
    list: (): string[] =>
      [...informer.objects.values()]
        .filter(isOurs)
        .map(({ metadata }) => metadata?.labels?.[label("environment")] ?? ""),

    /** Removes an environment's namespace with all that is in it; it goes within seconds. */
    async remove(environmentId: string): Promise<void> {
      const name = namespaceOf(namespacePrefix, environmentId);
      const namespace = await kube.get(Namespace, name);
      if (!namespace || !isOurs(namespace) || namespace.metadata?.deletionTimestamp) return;
      made.delete(name);
      await kube.remove(Namespace, name);
      log.info({ environmentId, namespace: name }, "the namespace of an environment is removed");
    },

    /** Tells of each namespace that is there, comes or goes. */
    watch(watcher: Watcher): void {
      watchers.push(watcher);
      for (const name of this.namespaces()) watcher.onNamespaceAdded(name);
    },

    stop: informer.stop,
  };
}
