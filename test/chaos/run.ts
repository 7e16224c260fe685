import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createRandom } from "../../services/kit/testing/random.ts";
import { emptyDisk, fillDisk } from "../../services/kit/testing/small-disk.ts";
import { startMailbox } from "../../services/kit/testing/smtp-server.ts";
import { type Figure, judge, print } from "../bench/row.ts";
import { CHECKS, look } from "./checks/check.ts";
import { createChecking } from "./checks/checking.ts";
import { createPace } from "./clients/pace.ts";
import { createRecord, type Sent } from "./clients/record.ts";
import { prepareShared } from "./clients/shared.ts";
import { MIXED, work } from "./clients/work.ts";
import { EVERYTHING, inflictFaults, type Schedule } from "./faults/inflict.ts";
import { createFaultLog, type FaultLog } from "./faults/log.ts";
import { startComposed } from "./platform/composed.ts";
import { startLauncher } from "./platform/launcher.ts";
import type { Platform } from "./platform/platform.ts";

export type RunOptions = {
  dir: string;
  seed: number;
  minutes: number;
  clients: number;
  diskFullMs: number;
  /** The file to which the rows are written. */
  json: string | undefined;
};

/** The last part of a run, in which the launcher itself is killed. */
const LAUNCHED_SHARE = 0.25;
const LAUNCHER_KILLED: Schedule = {
  only: [{ fault: "kill a process", to: ["launcher"] }],
  pause: { least: 4_000, most: 12_000 },
};
/** What a check waits for: mails, webhooks and events that wait after a fault. */
const PATIENCE_MS = 120_000;

/** Runs clients on a platform to which faults happen, and checks it then. Returns whether all held. */
export async function run(options: RunOptions): Promise<boolean> {
  const { dir, seed, minutes, clients } = options;
  const say = createSay();
  say(`seed ${seed}, ${clients} clients, ${minutes} minutes`);
  const random = (n: number) => createRandom(seed * 1_000 + n);
  const mailbox = await startMailbox();
  const [faults, record, pace] = [createFaultLog(), createRecord(), createPace()];
  let platform: Platform = await startComposed({ dir, smtpUrl: mailbox.url });
  const progress = setInterval(
    () => say(`answers by status: ${counts(record.statuses)}; pauses of ${pace.pauseMs().toFixed(0)} ms`),
    30_000,
  );
  try {
    const shared = await prepareShared(platform, record, { mailbox, faults });
    const until = Date.now() + minutes * 60_000;
    const launchedAt = until - minutes * 60_000 * LAUNCHED_SHARE;
    const isOver = (time: number) => () => Date.now() > time;
    const harm = async () => {
      const composed = { schedule: EVERYTHING, over: isOver(launchedAt) };
      await inflictFaults(platform, faults, random(999), composed);
      await faults.remember("the launcher takes over", "launcher", async () => {
        await platform.stop();
        // The launcher begins its logs anew.
        await rename(join(dir, "logs"), join(dir, "former-logs"));
        platform = await startLauncher(platform, { smtpUrl: mailbox.url });
      });
      say("the launcher runs the platform");
      await inflictFaults(platform, faults, random(998), { schedule: LAUNCHER_KILLED, over: isOver(until) });
    };
    await Promise.all([
      harm(),
      work(platform, shared, record, { clients, kinds: MIXED, pace, random, over: isOver(until) }),
      fullDisk(options, launchedAt, faults, say),
    ]);
    say(`faults: ${counts(faults.counts())}; restarts: ${counts(platform.restarts)}`);
    say(
      `answers by status: ${counts(record.statuses)}; ${record.effects.length} keyed effects; ` +
        `${record.history.length} reads and writes of registers; ${mailbox.received.length} mails`,
    );
    const checking = createChecking({ platform, shared, record }, PATIENCE_MS);
    const figures = [succeeded(record.sent, faults, say)];
    for (const check of CHECKS) figures.push(await look(check, checking, say));
    const rows = figures.map(judge);
    print(rows);
    if (options.json) await writeFile(options.json, `${JSON.stringify(rows, null, 2)}\n`);
    return rows.every(({ ok }) => ok);
  } finally {
    clearInterval(progress);
    await pace.stop();
    await platform.stop();
    await mailbox.stop();
  }
}

/** Returns a function that prints a line with the seconds since now. */
export function createSay() {
  const began = Date.now();
  return (text: string) => console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
}

/** Returns the share of requests that were answered as wanted, of those during which no fault was active. */
function succeeded(sent: Sent[], faults: FaultLog, say: (text: string) => void): Figure {
  const calm = sent.filter(({ from, to }) => faults.calm(from, to));
  const others = Map.groupBy(
    calm.filter(({ wanted }) => !wanted),
    ({ what }) => what.replace(/\(.*\)|[a-z]+_[0-9a-z]{26}|\d+(?!$)/g, "…"),
  );
  const most = [...others].toSorted(([, a], [, b]) => b.length - a.length).slice(0, 5);
  for (const [, [first, ...more]] of most)
    say(`without a fault: ${first!.what} (and ${more.length} like it)`);
  const wanted = calm.filter((one) => one.wanted).length;
  return {
    name: "requests without a fault succeed",
    value: (100 * wanted) / Math.max(1, calm.length),
    unit: "%",
    goal: ">= 90",
    detail: `${wanted} of ${calm.length}; ${sent.length} were sent in all`,
  };
}

const counts = (map: Map<string | number, number>) =>
  [...map]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, n]) => `${name} ${n}`)
    .join(", ");

/** Keeps the disk full for the requested time, halfway through the time that is left. */
async function fullDisk(
  { dir, diskFullMs }: RunOptions,
  until: number,
  faults: FaultLog,
  say: (text: string) => void,
): Promise<void> {
  if (diskFullMs === 0) return;
  await delay((until - Date.now() - diskFullMs) / 2);
  await faults.remember("the disk is full", "postgres", async () => {
    say("the disk is full");
    for (const end = Date.now() + diskFullMs; Date.now() < end; await delay(250)) fillDisk(dir);
    emptyDisk(dir);
    say("the disk has free space again");
  });
}
