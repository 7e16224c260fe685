import { setTimeout as delay } from "node:timers/promises";
import { createLog, type Logger } from "../../kit/log.ts";
import { integer, readConfig, text } from "../../kit/process/config.ts";
import { connectKube, type Kube } from "./client.ts";
import { Namespace } from "./kinds.ts";
import { INSTALLATION, managed, selector } from "./names.ts";

/**
 * Deletes the environments' namespaces of an installation, with everything in them, and waits until they are gone; fails
 * when some remain after `seconds`. `installation` is the namespace of its builds. For the uninstallation of the chart,
 * when no deployer would create them again.
 */
async function removeEnvironments(
  kube: Kube,
  installation: string,
  seconds: number,
  log: Logger,
): Promise<void> {
  for (const until = Date.now() + seconds * 1_000; ; await delay(1_000)) {
    const labels = selector({ ...managed, [INSTALLATION]: installation });
    const left = (await kube.list(Namespace, { labels })).items.map(({ metadata }) => metadata ?? {});
    if (left.length === 0) return;
    const namespaces = left.map(({ name }) => name);
    if (Date.now() > until) throw new Error(`these namespaces are not gone yet: ${namespaces.join(", ")}`);
    log.info({ namespaces }, "removing environments");
    for (const { name, deletionTimestamp } of left)
      if (name && !deletionTimestamp) await kube.remove(Namespace, name);
  }
}

if (import.meta.main) {
  const fields = {
    installation: text("KUBE_BUILD_NAMESPACE"),
    patience: integer("PATIENCE_SECONDS", { fallback: 240 }),
  };
  const config = readConfig(process.env, fields);
  const log = createLog("remove-environments", process.env.LOG_LEVEL || "info");
  try {
    await removeEnvironments(connectKube(), config.installation, config.patience, log);
  } catch (error) {
    log.fatal({ err: error }, "the environments could not be removed");
    process.exitCode = 1;
  }
}
