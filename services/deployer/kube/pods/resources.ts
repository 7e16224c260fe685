import type { V1ResourceRequirements } from "@kubernetes/client-node";
import { sizes } from "../../../kit/sizes.ts";
import type { ServiceSize } from "../../terms/services.ts";

/** The share of a size that is reserved; without one of its storage, the namespace's default limits what it stores. */
type Share = { cpu: number; memory: number; storage?: number };

/** Returns a container's resources: the size as the limit, and this share of it reserved on a node. */
export function resourcesOf(size: ServiceSize, reserved: Share): V1ResourceRequirements {
  const amounts = ({ cpu, memory, storage }: Share) => ({
    cpu: millicores(Math.ceil(sizes[size].cpu * cpu)),
    memory: mebibytes(Math.ceil(sizes[size].memory * memory)),
    ...(storage !== undefined && {
      "ephemeral-storage": mebibytes(Math.ceil(sizes[size].storage * storage)),
    }),
  });
  const storage = reserved.storage === undefined ? undefined : 1;
  return { requests: amounts(reserved), limits: amounts({ cpu: 1, memory: 1, storage }) };
}

// In the form in which the API returns them, so that comparing finds no difference.
export const millicores = (amount: number) => (amount % 1000 === 0 ? String(amount / 1000) : `${amount}m`);
const mebibytes = (amount: number) => (amount % 1024 === 0 ? `${amount / 1024}Gi` : `${amount}Mi`);

const FRACTIONS: Record<string, number> = { n: 1e-9, u: 1e-6, m: 1e-3 };

/** Returns the cores of a quantity such as `250m` or `1234567n`, in the API's notation. */
export function coresOf(quantity: string): number {
  const fraction = FRACTIONS[quantity.at(-1) ?? ""];
  return fraction === undefined ? bytesOf(quantity) : Number(quantity.slice(0, -1)) * fraction;
}

const UNITS = ["", "k", "M", "G", "T", "P", "E"];

/** Returns the bytes of a quantity such as `1.5Gi`, in the API's notation. */
export function bytesOf(quantity: string): number {
  const [, number, prefix = "", binary] = /^([\d.]+(?:[eE][+-]?\d+)?)([kKMGTPE]?)(i?)$/.exec(quantity) ?? [];
  return Number(number) * (binary ? 1024 : 1000) ** UNITS.indexOf(prefix === "K" ? "k" : prefix);
}
