import type { V1ResourceRequirements } from "@kubernetes/client-node";
import { sizes } from "../../kit/sizes.ts";
import type { ServiceSize } from "../runtime/port.ts";

/** Returns a container's resources: the size as the limit, and this share of it reserved on a node. */
export function resourcesOf(
  size: ServiceSize,
  reserved: { cpu: number; memory: number },
): V1ResourceRequirements {
  const amounts = (share: { cpu: number; memory: number }) => ({
    cpu: millicores(Math.ceil(sizes[size].cpu * share.cpu)),
    memory: mebibytes(Math.ceil(sizes[size].memory * share.memory)),
  });
  return { requests: amounts(reserved), limits: amounts({ cpu: 1, memory: 1 }) };
}

// In the form in which the API returns them, so that comparing finds no difference.
const millicores = (amount: number) => (amount % 1000 === 0 ? String(amount / 1000) : `${amount}m`);
const mebibytes = (amount: number) => (amount % 1024 === 0 ? `${amount / 1024}Gi` : `${amount}Mi`);
