import type { V1ResourceRequirements } from "@kubernetes/client-node";
import type { ServiceSize } from "../runtime/port.ts";

/** Thousandths of a CPU, and MiB (docs/catalog.md#sizes). */
export const sizes: Record<ServiceSize, { cpu: number; memory: number }> = {
  nano: { cpu: 250, memory: 256 },
  small: { cpu: 500, memory: 512 },
  medium: { cpu: 1000, memory: 1024 },
  large: { cpu: 2000, memory: 4096 },
};

/** A container's resources: the size is the limit, and a part of it is reserved on a node. */
export function resourcesOf(
  size: ServiceSize,
  reserved: { cpu: number; memory: number },
): V1ResourceRequirements {
  const amounts = (part: { cpu: number; memory: number }) => ({
    cpu: thousandths(Math.ceil(sizes[size].cpu * part.cpu)),
    memory: mebibytes(Math.ceil(sizes[size].memory * part.memory)),
  });
  return { requests: amounts(reserved), limits: amounts({ cpu: 1, memory: 1 }) };
}

// As the API gives them back.
const thousandths = (amount: number) => (amount % 1000 === 0 ? String(amount / 1000) : `${amount}m`);
const mebibytes = (amount: number) => (amount % 1024 === 0 ? `${amount / 1024}Gi` : `${amount}Mi`);
