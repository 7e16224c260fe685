import { setTimeout as delay } from "node:timers/promises";
import { integer, readConfig, text } from "../../kit/config.ts";
import { createLog, type Logger } from "../../kit/log.ts";
import { connectKube, type Kube } from "./client.ts";
import { Namespace } from "./kinds.ts";
import { managed, selector } from "./names.ts";

/**
 * Deletes the namespaces of all environments whose names begin with the prefix, with everything in them, and
 * waits until they are gone. For the end of an installation, when no deployer would make them anew.
 */
export async function removeEnvironments(
  kube: Kube,
  prefix: string,
  seconds: number,
  log: Logger,
): Promise<void> {
  for (const until = Date.now() + seconds * 1_000; ; await delay(1_000)) {
    const { items } = await kube.page(Namespace, { labels: selector(managed) });
    const left = items
      .map((one) => one.metadata?.name ?? "")
      .filter((name) => name.startsWith(`${prefix}-env-`));
    if (left.length === 0) return;
    if (Date.now() > until) throw new Error(`These namespaces are not gone yet: ${left.join(", ")}`);
    log.info({ namespaces: left }, "removing environments");
    for (const name of left) await kube.remove(Namespace, name);
  }
}

if (import.meta.main) {
  const fields = {
    prefix: text("KUBE_NAMESPACE_PREFIX"),
    patience: integer("PATIENCE_SECONDS", { fallback: 240 }),
  };
  const config = readConfig(process.env, fields);
  const log = createLog("remove-environments", process.env.LOG_LEVEL || "info");
  try {
    await removeEnvironments(connectKube(), config.prefix, config.patience, log);
  } catch (error) {
    log.fatal({ err: error }, "the environments could not be removed");
    process.exitCode = 1;
  }
}
