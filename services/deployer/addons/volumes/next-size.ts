/** Sizes in GiB: what was requested, what the file system has, up to which it is to grow by itself, and what the plan allows. */
type Volume = { gib: number; capacityGib: number; maxGib?: number; planGib: number };

/** The size to which a volume is to grow; `reason`: why to none, and what to do, as sentences for users. */
type NextSize = { to: number } | { reason: string };

/** A file system has somewhat less than its volume. */
const ARRIVED = 0.9;

/** Returns whether the file system has the size that was requested last. */
export const hasArrived = ({ gib, capacityGib }: Pick<Volume, "gib" | "capacityGib">) =>
  capacityGib >= ARRIVED * gib;

/** Returns the next size of a volume that is nearly full: at least a quarter more, and one GiB (docs/addons.md#volumes-that-fill). */
export function toNextSize(volume: Volume): NextSize {
  const { gib, maxGib, planGib } = volume;
  if (!hasArrived(volume))
    return {
      reason: `It is to have ${gib} GiB, and has not grown yet. If that takes longer, ask whoever operates this installation.`,
    };
  if (maxGib === undefined)
    return {
      reason:
        "Enlarge it before it is full: set config.storageGib, or config.storageMaxGib, up to which it grows by itself.",
    };
  const to = Math.min(gib + Math.max(1, Math.ceil(gib / 4)), maxGib, planGib);
  if (to > gib) return { to };
  return {
    reason:
      maxGib <= gib
        ? "It has the size of config.storageMaxGib: raise that before it is full."
        : "It has the most that the plan allows: choose a larger plan, or delete data, before it is full.",
  };
}
