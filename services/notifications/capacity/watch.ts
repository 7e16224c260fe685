import { hostname } from "node:os";
import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { Config } from "../config.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Notify } from "../notices/notify.ts";
import type { Directory } from "../recipients/directory.ts";
import { MEASURE_NODE } from "../tasks.ts";
import { createPatience, type Level, levelOf, type Resource, type Thresholds } from "./level.ts";
import { type Disk, largestParts, type Measure, measureDisk, measureMemory, usedPercent } from "./measure.ts";
import { used } from "./metrics.ts";
import { listLevels, setLevel } from "./sql.ts";
import { noticeText } from "./texts.ts";

type Settings = Pick<
  Config,
  "watchedFolders" | "nodeName" | "diskWarnPercent" | "diskUrgentPercent" | "memoryWarnPercent"
>;
type Deps = { pool: Pool; log: Logger; notify: Notify; directory: Directory; now: () => number };

/** Memory comes and goes with builds; a disk does not empty itself. */
const PATIENCE_MS: Record<Resource, number> = { disk: 0, memory: 3 * 60_000 };

/** Watches the node until stopped; undefined where no folder is to be watched. */
export function startWatchingNode(deps: Deps & Settings) {
  if (deps.watchedFolders.length === 0) return undefined;
  return startTask(MEASURE_NODE, nodeWatch(deps, { measureDisk, measureMemory }), { log: deps.log });
}

/**
 * Returns the function that measures the node and notifies the operators when a resource runs short, runs even shorter, or
 * is sufficient again (docs/operations.md#disk-and-memory): once, however many processes are on the node.
 */
export function nodeWatch(
  { pool, log, notify, directory, now, ...settings }: Deps & Settings,
  measures: { measureDisk: typeof measureDisk; measureMemory: typeof measureMemory },
) {
  const node = settings.nodeName ?? hostname();
  const thresholds: Record<Resource, Thresholds> = {
    disk: { low: settings.diskWarnPercent || Infinity, urgent: settings.diskUrgentPercent || Infinity },
    memory: { low: settings.memoryWarnPercent ? 100 - settings.memoryWarnPercent : Infinity },
  };
  const lasts = { disk: createPatience(PATIENCE_MS.disk), memory: createPatience(PATIENCE_MS.memory) };

  async function check(
    resource: Resource,
    measure: Measure | Disk | undefined,
    from: Level,
    signal?: AbortSignal,
  ): Promise<void> {
    if (!measure) return;
    used.set({ node, resource }, usedPercent(measure) / 100);
    const to = levelOf(from, usedPercent(measure), thresholds[resource]);
    if (!lasts[resource](to === from ? undefined : to, now())) return;
    const disk = "folders" in measure ? measure : undefined;
    const about = {
      folders: disk?.folders ?? [],
      parts: disk && to !== "ok" ? await largestParts(disk, signal) : [],
      onCluster: settings.nodeName !== undefined,
    };
    const content = noticeText({ node, resource, to, measure }, about);
    const operators = await directory.operators();
    const told = await transaction(pool, async (tx) => {
      if ((await setLevel(tx, { node, resource, from, to })) === 0) return false;
      if (!operators) return true;
      await notify(tx, {
        kind: kindOf(resource, to),
        accountId: operators.accountId,
        ...content,
        metadata: { node, resource, level: to },
        // Only one process gets here for a change.
        dedupe: newId("evt"),
        recipients: operators.owners,
      });
      return true;
    });
    if (told) log[to === "ok" ? "info" : "warn"]({ node, resource, level: to, ...measure }, content.title);
  }

  return async (signal?: AbortSignal): Promise<void> => {
    const levels = new Map((await listLevels(pool, node)).map(({ resource, level }) => [resource, level]));
    const before = (resource: Resource) => levels.get(resource) ?? "ok";
    await check("disk", await measures.measureDisk(settings.watchedFolders), before("disk"), signal);
    await check("memory", await measures.measureMemory(), before("memory"));
  };
}

function kindOf(resource: Resource, level: Level): KindKey {
  if (level === "ok") return "node.recovered";
  return resource === "disk" ? "node.disk_filling" : "node.memory_low";
}
