import type { ServiceRecord } from "../record/service-record.ts";
import { adoptInstance, type Instance, type InstanceContext, sweepInstances } from "./instance.ts";
import { slotOf } from "./rollout.ts";

/**
 * Adopts the instances of the record that still run and belong to one of its releases; returns them by their slots.
 * `swept` resolves when all other instances have ended.
 */
export async function adoptInstances(
  home: InstanceContext,
  { instances, desired, live }: ServiceRecord,
  graceMs: number,
): Promise<{ adopted: Map<string, Instance>; swept: Promise<void> }> {
  const wanted = instances.filter(
    ({ generation, replica }) =>
      (generation === desired.generation && replica < desired.release.replicas) ||
      generation === live?.generation,
  );
  const adopted = new Map<string, Instance>();
  for (const one of wanted) {
    const instance = await adoptInstance(home, one);
    if (instance) adopted.set(slotOf(one.generation, one.replica), instance);
  }
  const kept = new Set([...adopted.values()].map((instance) => instance.record.name));
  return { adopted, swept: sweepInstances(home, instances, kept, graceMs) };
}
