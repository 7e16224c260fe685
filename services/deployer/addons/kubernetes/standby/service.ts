import type { V1Service } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { label, namespaceOf, selector } from "../../../kube/names.ts";
import type { Addon } from "../../port.ts";
import { type Ordinal, POD_NAME, podName, serviceOf } from "../server/manifests.ts";
import { ignoreConflict } from "./secret.ts";

type Options = { namespacePrefix: string };

export async function findService(
  kube: Kube,
  addon: Addon,
  { namespacePrefix }: Options,
): Promise<V1Service | undefined> {
  const namespace = namespaceOf(namespacePrefix, addon.environmentId);
  const labels = selector({ [label("serviceId")]: addon.serviceId, [label("kind")]: "addon" });
  const { items } = await kube.list(kinds.Service, { namespace, labels });
  return items.find(({ metadata }) => metadata?.name === addon.name);
}

/**
 * Has the Service of an addon lead to the primary, which was read after it; unless it has changed since: another process may
 * know of a newer primary.
 */
export async function pointService(
  kube: Kube,
  addon: Addon,
  options: Options,
  service: V1Service | undefined,
  primary: Ordinal,
): Promise<void> {
  if (service?.spec?.selector?.[POD_NAME] === podName(addon.serviceId, primary)) return;
  const wanted = serviceOf(addon, options, primary);
  const { resourceVersion, uid } = service?.metadata ?? {};
  const metadata = { ...wanted.metadata, resourceVersion, uid };
  await kube.apply(kinds.Service, { ...wanted, metadata }).catch(ignoreConflict);
}

/** Has the Service lead to one server alone, before there is a second one. */
export async function separateService(kube: Kube, addon: Addon, options: Options, primary: Ordinal) {
  const service = await findService(kube, addon, options);
  if (!service?.spec?.selector?.[POD_NAME]) await pointService(kube, addon, options, service, primary);
}
