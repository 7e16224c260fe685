import { residentMiB } from "../platform.ts";
import type { Bench } from "../row.ts";

/** `npm start` on an empty folder until it is ready, and what the whole platform then holds in memory. */
export const start: Bench = {
  names: ["start-to-ready", "resident-memory"],
  run: async (platform) => [
    { name: "start-to-ready", value: platform.readyMs / 1000, unit: "s", goal: "<= 8" },
    { name: "resident-memory", value: await residentMiB(platform.pid), unit: "MiB", goal: "<= 600" },
  ],
};
