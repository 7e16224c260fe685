import type { V1Namespace } from "@kubernetes/client-node";
import { retry } from "../../../../kit/retry.ts";
import { isStatus } from "../../../kube/client.ts";
import { type Informer, startInformer } from "../../../kube/informer.ts";
import { Namespace, RoleBinding } from "../../../kube/kinds.ts";
import { INSTALLATION, label, managed, namespaceOf, selector } from "../../../kube/names.ts";
import type { EnvironmentPlan } from "../../../terms/environment-plan.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import {
  bindingFor,
  type Environment,
  environmentManifests,
  isSameMark,
  namespaceFor,
  withMark,
  withPlan,
} from "./namespace-manifests.ts";

export type Environments = ReturnType<typeof createEnvironments>;

/** A new RoleBinding takes a moment until every server of the API knows it. */
const RIGHTS_MS = 10_000;

/** In how many turns of `reapply` each namespace is once. */
export const TURNS = 10;

type Watcher = {
  onNamespaceAdded: (namespace: string) => void;
  onNamespaceRemoved: (namespace: string) => void;
};

/** Returns the turn of `reapply` in which an environment is. */
function turnOf({ environmentId }: Environment): number {
  return environmentId.charCodeAt(environmentId.length - 1) % TURNS;
}

/** The namespaces of environments: created when they are first needed, watched once `start` was called, and removed. */
export function createEnvironments(options: KubernetesRuntimeOptions) {
  const { kube, log, namespacePrefix } = options;
  /** What this process has applied, or is about to, by the name of the namespace. */
  const applied = new Map<string, { marked: ReturnType<typeof withMark>; done: Promise<void> }>();
  /** Those that lack something, whatever their mark says. */
  const doubted = new Set<string>();
  /** What the plans allowed when they were last asked about, by the id of the environment. */
  const plans = new Map<string, EnvironmentPlan | undefined>();
  const watchers: Watcher[] = [];
  const labels = selector(managed);

  const isOurs = ({ metadata }: V1Namespace) => {
    const { [label("environment")]: environmentId, [INSTALLATION]: installation } = metadata?.labels ?? {};
    if (environmentId === undefined) return false;
    // One without the annotation receives it with the next `reapply`.
    if (installation !== undefined && installation !== options.claimsNamespace) return false;
    return metadata?.name === namespaceOf(namespacePrefix, environmentId);
  };
  let informer: Informer<V1Namespace> | undefined;
  const ours = () => [...(informer?.objects.values() ?? [])].filter(isOurs);

  function onChange(namespace: V1Namespace, gone: boolean): void {
    const name = namespace.metadata?.name ?? "";
    if (!isOurs(namespace)) return;
    if (gone) forget(name);
    for (const watcher of watchers) (gone ? watcher.onNamespaceRemoved : watcher.onNamespaceAdded)(name);
  }

  /** Applies a namespace and what it holds, and last the mark that says so; one that has it already keeps it. */
  async function apply(environment: Environment, own: KubernetesRuntimeOptions): Promise<void> {
    const namespace = namespaceFor(environment, own);
    const live = await kube.get(Namespace, namespace.metadata.name);
    if (live?.status?.phase === "Terminating") throw new Error(`${namespace.metadata.name} is being removed`);
    if (live && !isOurs(live)) throw new Error(`${namespace.metadata.name} belongs to somebody else`);
    const marked = withMark(environment, own);
    const isMarked = live !== undefined && isSameMark(live, marked);
    await kube.apply(Namespace, isMarked ? marked : namespace);
    const binding = bindingFor(environment, own);
    if (binding) await kube.apply(RoleBinding, binding);
    const retryIf = (error: unknown) => binding !== undefined && isStatus(error, 403);
    for (const { kind, object } of environmentManifests(environment, own))
      await retry(() => kube.apply(kind, object), { everyMs: 100, forMs: RIGHTS_MS, retryIf });
    if (!isMarked) await kube.apply(Namespace, marked);
  }

  async function learnPlan(environmentId: string): Promise<void> {
    plans.set(environmentId, (await options.plansOf([environmentId])).get(environmentId));
  }

  /** Forgets what was applied. Not the plan: one that was learned before a transaction must not be asked for in it. */
  function forget(name: string): void {
    applied.delete(name);
    doubted.delete(name);
  }

  /** Whether a namespace exists and has this mark, of whoever applied it, and nothing told otherwise. */
  function isMarked(name: string, marked: V1Namespace): boolean {
    const live = informer?.objects.get(name);
    if (!live || !isOurs(live) || live.metadata?.deletionTimestamp) return false;
    return isSameMark(live, marked) && !doubted.has(name);
  }

  /** Applies a namespace with the walls of the plan, unless that was done; or `again`, after what is under way. */
  async function bring(environment: Environment, again = false): Promise<string> {
    const { environmentId } = environment;
    if (!plans.has(environmentId)) await learnPlan(environmentId);
    const own = withPlan(options, plans.get(environmentId));
    const marked = withMark(environment, own);
    const { name } = marked.metadata;
    const before = applied.get(name);
    if (again || !(before ? isSameMark(before.marked, marked) : isMarked(name, marked))) {
      const earlier = before?.done.catch(() => {}) ?? Promise.resolve();
      const done = earlier.then(() => apply(environment, own)).then(() => void doubted.delete(name));
      applied.set(name, { marked, done });
    }
    const now = applied.get(name);
    await now?.done.catch((error) => {
      if (applied.get(name) === now) applied.delete(name);
      throw error;
    });
    return name;
  }

  return {
    /** Begins to watch; resolves once the existing namespaces are known. */
    async start(): Promise<void> {
      informer = startInformer(kube, Namespace, { labels, log, changed: onChange });
      await informer.synced;
    },

    /** Asks what the plan of an environment's account allows; not in a transaction. */
    learnPlan,

    /** Creates the environment's namespace with all it needs, once for each plan, and returns its name. */
    ensure: (environment: Environment): Promise<string> => bring(environment),

    /** Brings an existing namespace to the plan that was learned. */
    async follow(name: string): Promise<void> {
      const live = informer?.objects.get(name);
      if (live) await bring(environmentOf(live));
    },

    /**
     * Brings those existing namespaces to their desired state to which another one was applied; and those whose turn
     * (0 to 9) it is whatever was applied, so that what somebody removed comes back and no burst of requests is needed.
     */
    async reapply(turn?: number): Promise<void> {
      const now = await options.plansOf(ours().map((live) => environmentOf(live).environmentId));
      for (const live of ours()) {
        if (live.metadata?.deletionTimestamp) continue;
        const environment = environmentOf(live);
        const wanted = withMark(environment, withPlan(options, now.get(environment.environmentId)));
        if (turnOf(environment) !== turn && isSameMark(live, wanted)) continue;
        // Others took a while: the plan may be another one by now.
        await learnPlan(environment.environmentId)
          .then(() => bring(environment, true))
          .catch((err) =>
            log.warn(
              { err, namespace: live.metadata?.name },
              "could not bring a namespace to its desired state; retrying",
            ),
          );
      }
    },

    /** Makes the next `ensure` apply the namespace again. */
    invalidate(namespace: string): void {
      applied.delete(namespace);
      doubted.add(namespace);
    },

    /** Returns the names of the environments' namespaces. */
    namespaces: (): string[] => ours().map(({ metadata }) => metadata?.name ?? ""),

    namespaceOf: (environmentId: string) => namespaceOf(namespacePrefix, environmentId),

    /** Whether an environment's namespace exists. */
    has(name: string): boolean {
      const namespace = informer?.objects.get(name);
      return namespace !== undefined && isOurs(namespace);
    },

    /** Returns the ids of the environments that have a namespace. */
    list: (): string[] => ours().map(({ metadata }) => metadata?.labels?.[label("environment")] ?? ""),

    /** Requests the deletion of an environment's namespace and all that it holds, which takes seconds. */
    async remove(environmentId: string): Promise<void> {
      const name = namespaceOf(namespacePrefix, environmentId);
      const namespace = await kube.get(Namespace, name);
      if (!namespace || !isOurs(namespace) || namespace.metadata?.deletionTimestamp) return;
      forget(name);
      plans.delete(environmentId);
      await kube.remove(Namespace, name);
      log.info({ environmentId, namespace: name }, "removed the namespace of an environment");
    },

    /** Calls the watcher for each namespace that exists, is added or removed. */
    watch(watcher: Watcher): void {
      watchers.push(watcher);
      for (const name of this.namespaces()) watcher.onNamespaceAdded(name);
    },

    stop: async () => informer?.stop(),
  };
}

function environmentOf({ metadata }: V1Namespace): Environment {
  const of = (what: "account" | "project" | "environment") => metadata?.labels?.[label(what)] ?? "";
  return { accountId: of("account"), projectId: of("project"), environmentId: of("environment") };
}
