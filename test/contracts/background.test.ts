import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

/** Timers that end with one thing, which is why they are no tasks: what they repeat for, by file. */
const TIMERS: Record<string, string> = {
  "deploy/local/data/logs.ts": "a launcher that shows logs",
  "deploy/local/terminal/display.ts": "lines of progress on a terminal",
  "deploy/stripe-simulator/start.ts": "the clock of a simulated Stripe, which runs without Berth",
  "gateway/http/app.ts": "the connections of a gateway that closes",
  "gateway/streams/event-stream.ts": "the heartbeat of one stream",
  "services/deployer/addons/tunnels/tunnels.ts": "whether the client of one tunnel is there",
  "services/deployer/backups/hold-lease.ts": "the lease of one backup",
  "services/deployer/builds/log-writer.ts": "the log of one build",
  "services/deployer/runtime/local/logs/log-collector.ts": "the log files of one machine",
  "services/kit/process/graceful-close.ts": "the connections of a process that closes",
};

test("work that a process repeats for itself is a task, which metrics, an alert and the page of tasks know", () => {
  const files = execFileSync("git", ["ls-files", "services", "gateway", "deploy"], {
    cwd: ROOT,
    encoding: "utf8",
  })
    .split("\n")
    .filter((file) => file.endsWith(".ts") && !/\.test\.ts$|testing|gateway\/pages/.test(file));
  const repeating = files.filter((file) => /\bsetInterval\(/.test(readFileSync(join(ROOT, file), "utf8")));
  expect(repeating).toEqual(Object.keys(TIMERS));
});
