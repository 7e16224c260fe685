import { fields } from "../../../services/identity/config.ts";
import { start } from "../../../services/identity/main.ts";
import { createLog } from "../../../services/kit/log.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { testKeys } from "../../../services/kit/testing/testing.ts";
import { openDoor } from "../door.ts";
import type { OauthPlatform } from "./platform.ts";

export type Replicas = ReturnType<typeof createReplicas>;

/** Further replicas of a platform's identity, each with a gateway of its own before it. */
export function createReplicas(it: OauthPlatform) {
  const cleanup: (() => Promise<unknown>)[] = [];

  const env = (more: Record<string, string> = {}): Record<string, string> => ({
    DATABASE_URL: it.platform.database.url("identity"),
    NATS_URL: it.platform.nats.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(),
    PUBLIC_ORIGIN: it.origin,
    LOG_LEVEL: "info",
    ...more,
  });

  /** A gateway before the identity at this port; users and applications know both gateways by one origin. */
  async function gatewayBefore(port: number) {
    const IDENTITY_URL = `http://127.0.0.1:${port}`;
    const gateway = await it.platform.gateway({ ...it.gatewayEnv, IDENTITY_URL });
    cleanup.push(() => gateway.stop());
    return openDoor(`http://127.0.0.1:${gateway.port}`, it.ownerToken);
  }

  return {
    /** The environment of a replica's process. */
    env,
    gatewayBefore,
    /** One more replica, in this process; `more` adds environment variables. */
    async replica(more: Record<string, string> = {}) {
      const running = await start(readConfig(env(more), fields), createLog("identity", "silent"));
      cleanup.push(() => running.stop());
      return gatewayBefore(running.port);
    },
    /** Does something when they end, before what was begun earlier ends. */
    atEnd: (step: () => Promise<unknown>) => void cleanup.push(step),
    /** Ends those that there are. */
    async stop() {
      for (const step of cleanup.splice(0).reverse()) await step();
    },
  };
}
