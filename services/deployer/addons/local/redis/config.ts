import { join } from "node:path";
import { sizes } from "../../../../kit/sizes.ts";
import type { ServiceSize } from "../../../terms/services.ts";

/** The desired state of a redis server. The password is never an argument of a process. */
export type RedisSettings = { password: string; size: ServiceSize; port?: number };

/** Returns the configuration file of a server that keeps its data in `folder`. */
export function redisConfig(folder: string, port: number, { password, size }: RedisSettings): string {
  const data = join(folder, "data").replace(/[\\"]/g, "\\$&");
  return [
    "bind 127.0.0.1",
    `port ${port}`,
    `requirepass ${password}`,
    `dir "${data}"`,
    "daemonize no",
    "appendonly yes",
    'save ""',
    'logfile ""',
    `maxmemory ${sizes[size].memory}mb`,
    "maxmemory-policy noeviction",
    "",
  ].join("\n");
}

/** Returns the password that a configuration file sets. */
export function configuredPassword(config: string): string | undefined {
  return /^requirepass (\S+)$/m.exec(config)?.[1];
}

/** Returns the commands that bring password and memory of a running server to the desired state. */
export function adjustments({ password, size }: RedisSettings): string[][] {
  return [
    ["CONFIG", "SET", "maxmemory", `${sizes[size].memory}mb`],
    ["CONFIG", "SET", "requirepass", password],
  ];
}
