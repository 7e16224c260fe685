import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { Logger } from "../shared/logger.ts";
import { SAMPLE_METRICS } from "../tasks.ts";
import type { Measurement } from "../terms/measurement.ts";
import { addUp } from "./add-up.ts";
import { addUsed, beginSampling, listCounted, setCounted } from "./sql.ts";

/** What measures services. */
type Measuring = { measure?: () => Promise<Measurement[]> };
export type SamplingDeps = { pool: Pool; runtime: Measuring; addonServers?: Measuring; log: Logger };

/** As many as are written at once: of each some 300 bytes. */
const BATCH = 1_000;

/** Measures all services again and again, where that is possible. */
export function startSampling(deps: SamplingDeps) {
  return startTask(SAMPLE_METRICS, (signal) => sample(deps, signal), { log: deps.log });
}

/** Measures all services once, and adds what they used since the last time to the current minute (docs/metrics.md#how-it-is-kept). */
export async function sample(
  { pool, runtime, addonServers }: SamplingDeps,
  signal?: AbortSignal,
): Promise<void> {
  for (const measuring of [runtime, addonServers]) {
    const measurements = (await measuring?.measure?.()) ?? [];
    for (let from = 0; from < measurements.length && !signal?.aborted; from += BATCH)
      await record(pool, measurements.slice(from, from + BATCH));
  }
}

/** What was used and up to where it was counted are one transaction: a process that is killed counts nothing twice. */
function record(pool: Pool, measurements: Measurement[]): Promise<void> {
  return transaction(pool, async (tx) => {
    const begun = await beginSampling(tx);
    // Another process is about to take over: it has measured later.
    if (!begun?.alone) return;
    const ids = measurements.map(({ serviceId }) => serviceId);
    const before = new Map((await listCounted(tx, ids)).map((row) => [row.serviceId, row]));
    const added = measurements
      .filter(({ serviceId }) => before.has(serviceId))
      .map((one) => {
        const { measuredAt, counters } = before.get(one.serviceId)!;
        const counted = measuredAt === null || counters === null ? undefined : { measuredAt, counters };
        return addUp(one, counted, begun.now);
      });
    await addUsed(
      tx,
      added.map(({ used }) => used),
    );
    await setCounted(
      tx,
      added.map(({ used: { serviceId }, counted }) => ({ serviceId, ...counted })),
    );
  });
}
