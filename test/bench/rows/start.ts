import { residentMiB } from "../platform.ts";
import type { Bench } from "../row.ts";

/** The time of `npm start` on an empty folder until it is ready, and the memory of the whole platform then. */
export const start: Bench = {
  names: ["start-to-ready", "resident-memory"],
  run: async (platform) => [
    { name: "start-to-ready", value: platform.readyMs / 1000, unit: "s", goal: "<= 8" },
    { name: "resident-memory", value: await residentMiB(platform.pid), unit: "MiB", goal: "<= 600" },
  ],
};
