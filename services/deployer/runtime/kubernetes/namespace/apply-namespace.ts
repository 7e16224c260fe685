import type { V1Namespace } from "@kubernetes/client-node";
import { retry } from "../../../../kit/concurrency/retry.ts";
import { isStatus } from "../../../kube/client.ts";
import { Namespace, RoleBinding } from "../../../kube/kinds.ts";
import { INSTALLATION, label, namespaceOf } from "../../../kube/names.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import {
  bindingFor,
  type Environment,
  environmentManifests,
  isSameMark,
  namespaceFor,
  withMark,
} from "./namespace-manifests.ts";

/** A new RoleBinding takes a moment until every server of the API knows it. */
const RIGHTS_MS = 10_000;

/** Returns whether a namespace is one of an environment of this installation. */
export function isOurs(
  { metadata }: V1Namespace,
  { namespacePrefix, claimsNamespace }: KubernetesRuntimeOptions,
): boolean {
  const { [label("environment")]: environmentId, [INSTALLATION]: installation } = metadata?.labels ?? {};
  if (environmentId === undefined) return false;
  // One without the label receives it when it is applied again.
  if (installation !== undefined && installation !== claimsNamespace) return false;
  return metadata?.name === namespaceOf(namespacePrefix, environmentId);
}

/**
 * Applies a namespace and what it holds, and last the mark that says so; one that has it already keeps it. Throws while
 * the namespace is being removed, and for one of somebody else.
 */
export async function applyNamespace(
  environment: Environment,
  options: KubernetesRuntimeOptions,
): Promise<void> {
  const { kube } = options;
  const namespace = namespaceFor(environment, options);
  const live = await kube.get(Namespace, namespace.metadata.name);
  if (live?.status?.phase === "Terminating") throw new Error(`${namespace.metadata.name} is being removed`);
  if (live && !isOurs(live, options)) throw new Error(`${namespace.metadata.name} belongs to somebody else`);
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
