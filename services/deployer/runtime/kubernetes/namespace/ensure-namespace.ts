import type { V1Namespace } from "@kubernetes/client-node";
import type { EnvironmentPlan } from "../../../terms/environment-plan.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { applyNamespace } from "./apply-namespace.ts";
import { type Environment, withMark, withPlan } from "./namespace-manifests.ts";
import { needsApply } from "./needs-apply.ts";

/** What this process has applied to a namespace, or is about to. */
type Attempt = { desired: MarkedNamespace; done: Promise<void> };
type MarkedNamespace = ReturnType<typeof withMark>;
type State = { attempt?: Attempt; stale: boolean };

/** Applies namespaces when they are needed, each once for each desired state. `find` returns those that exist. */
export function createNamespaceRunner(
  options: KubernetesRuntimeOptions,
  find: (name: string) => V1Namespace | undefined,
) {
  /** By the name of the namespace. */
  const states = new Map<string, State>();
  /** What the plans allowed when they were last asked about, by the id of the environment. */
  const plans = new Map<string, EnvironmentPlan | undefined>();

  /** Asks what the plan of an environment's account allows; not in a transaction. */
  async function learnPlan(environmentId: string): Promise<void> {
    plans.set(environmentId, (await options.plansOf([environmentId])).get(environmentId));
  }

  /** Applies a namespace after what is under way. Nothing is recorded of an attempt that another one replaced. */
  function begin(environment: Environment, own: KubernetesRuntimeOptions, desired: MarkedNamespace): Attempt {
    const { name } = desired.metadata;
    const { attempt: before, stale = false } = states.get(name) ?? {};
    const settle = (state: State) => void (states.get(name)?.attempt === attempt && states.set(name, state));
    const done = (before?.done.catch(() => {}) ?? Promise.resolve())
      .then(() => applyNamespace(environment, own))
      .then(
        () => settle({ attempt, stale: false }),
        (error) => {
          settle({ stale });
          throw error;
        },
      );
    const attempt: Attempt = { desired, done };
    states.set(name, { attempt, stale });
    return attempt;
  }

  return {
    learnPlan,

    /** Applies a namespace with the limits of the plan, unless that was done or with `force`; returns its name. */
    async ensureNamespace(environment: Environment, { force = false } = {}): Promise<string> {
      const { environmentId } = environment;
      if (!plans.has(environmentId)) await learnPlan(environmentId);
      const own = withPlan(options, plans.get(environmentId));
      const desired = withMark(environment, own);
      const { name } = desired.metadata;
      const { attempt, stale = false } = states.get(name) ?? {};
      const known = { live: find(name), applied: attempt?.desired, stale };
      const current = force || needsApply(desired, known) ? begin(environment, own, desired) : attempt;
      await current?.done;
      return name;
    },

    /** Has the namespace applied again when it is next needed. */
    invalidate(name: string): void {
      states.set(name, { stale: true });
    },

    /** Forgets what was applied. Not the plan: one that was learned before a transaction must not be asked for in it. */
    forget(name: string): void {
      states.delete(name);
    },

    /** Forgets the plan of an environment that is removed. */
    forgetPlan(environmentId: string): void {
      plans.delete(environmentId);
    },
  };
}
