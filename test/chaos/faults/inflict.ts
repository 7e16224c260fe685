import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../../services/kit/testing/random.ts";
import { familyOf } from "../../support/processes.ts";
import type { Platform } from "../platform/platform.ts";
import type { FaultLog } from "./log.ts";

type Inflict = (platform: Platform, subject: string, random: Random) => Promise<void>;

/** A fault: to a process, to a connection (`<name> to <name>`), or of Stripe. It is over when `inflict` resolves. */
const faults = {
  "kill a process": {
    to: "process",
    weight: 6,
    inflict: async (platform, subject) => signal(platform, subject, "SIGKILL"),
  },
  "stop a process": {
    to: "process",
    weight: 2,
    inflict: async (platform, subject) => signal(platform, subject, "SIGTERM"),
  },
  "suspend a process": {
    to: "process",
    weight: 4,
    inflict: async (platform, subject, random) => {
      signal(platform, subject, "SIGSTOP");
      await delay(random.between(100, 6_000));
      signal(platform, subject, "SIGCONT");
    },
  },
  "kill a session of the database": {
    to: "process",
    weight: 1,
    inflict: async (platform, _subject, random) => kill(await databaseSession(platform, random), "SIGKILL"),
  },
  "cut connections": {
    to: "connection",
    weight: 6,
    inflict: async ({ proxies }, subject) => proxies.get(subject)?.cut(),
  },
  "refuse connections": {
    to: "connection",
    weight: 3,
    inflict: async ({ proxies }, subject, random) => {
      const proxy = proxies.get(subject);
      proxy?.shut();
      await delay(random.between(100, 4_000));
      await proxy?.open();
    },
  },
  "hang connections": {
    to: "connection",
    weight: 3,
    inflict: async ({ proxies }, subject, random) => {
      const proxy = proxies.get(subject);
      const outcome = random.of(["kept", "lost", "silent"] as const);
      proxy?.hang(outcome);
      await delay(random.between(100, 8_000));
      proxy?.goOn(outcome);
    },
  },
  "fail requests to Stripe": {
    to: "stripe",
    weight: 2,
    inflict: async ({ stripeUrl }, _subject, random) => {
      const kind = random.of(["refuse", "error", "rate_limit", "lose_answer"]);
      await control(stripeUrl, "POST", "faults", { kind, times: random.between(1, 6) });
      await delay(random.between(1_000, 6_000));
      await control(stripeUrl, "DELETE", "faults", {});
    },
  },
  "disturb webhooks": {
    to: "stripe",
    weight: 2,
    inflict: async ({ stripeUrl }, _subject, random) => {
      const disturbed = { duplicate: random.below(20), reorder: random.below(5), tamper: random.below(3) };
      await control(stripeUrl, "POST", "webhooks", { ...disturbed, delay_ms: random.below(2_000) });
      await delay(random.between(1_000, 6_000));
      await control(stripeUrl, "POST", "webhooks", { duplicate: 0, reorder: 0, tamper: 0, delay_ms: 0 });
    },
  },
} as const satisfies Record<
  string,
  { to: "process" | "connection" | "stripe"; weight: number; inflict: Inflict }
>;

/** Tells the simulator of Stripe what goes wrong (deploy/stripe-simulator/README.md). */
async function control(stripeUrl: string, method: string, what: string, body: object): Promise<void> {
  await fetch(`${stripeUrl}/_sim/${what}`, { method, body: JSON.stringify(body) });
}

type FaultName = keyof typeof faults;

/** Which faults there are: all, or some of them, to some subjects. Pauses are in milliseconds. */
export type Schedule = {
  only?: { fault: FaultName; to: string[] }[];
  pause: { least: number; most: number };
};

/** Any fault, with pauses in which the platform is calm. */
export const EVERYTHING: Schedule = { pause: { least: 500, most: 5_000 } };

/** Causes one fault at a time, waits until the platform is ready again, and pauses, until `over` says that it is over. */
export async function inflictFaults(
  platform: Platform,
  log: FaultLog,
  random: Random,
  { schedule, over }: { schedule: Schedule; over: () => boolean },
): Promise<void> {
  const urn = urnOf(platform, schedule);
  while (!over() && urn.length > 0) {
    const { fault, subjects } = random.of(urn);
    const subject = random.of(subjects);
    await log.remember(fault, subject, async () => {
      await faults[fault].inflict(platform, subject, random);
      // What was killed may answer a moment longer, the programs of a killed launcher until they have stopped.
      await delay(subject === "launcher" ? 5_000 : 250);
      await untilReady(platform);
    });
    await delay(random.between(schedule.pause.least, schedule.pause.most));
  }
}

function urnOf({ victims, proxies }: Platform, { only }: Schedule) {
  const subjects = {
    process: victims.map(({ name }) => name),
    connection: [...proxies.keys()],
    stripe: ["stripe"],
  };
  const wanted =
    only ?? (Object.keys(faults) as FaultName[]).map((fault) => ({ fault, to: subjects[faults[fault].to] }));
  return wanted.flatMap(({ fault, to }) =>
    Array.from({ length: only ? 1 : faults[fault].weight }, () => ({ fault, subjects: to })),
  );
}

/** The longest that a platform may need, on a busy machine; if it is not ready then, the checks say so. */
const READY_MS = 120_000;

/** A fault goes on in what it caused: a process that restarts, connections that are made again; also when all is over. */
export async function untilReady(platform: Platform): Promise<void> {
  for (const deadline = Date.now() + READY_MS; Date.now() < deadline; await delay(100))
    if (await platform.isReady()) break;
  await delay(250);
}

function signal({ victims }: Platform, subject: string, name: NodeJS.Signals): void {
  kill(victims.find((one) => one.name === subject)?.pid(), name);
}

function kill(pid: number | undefined, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, name);
  } catch (error) {
    // It has exited meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function databaseSession({ victims }: Platform, random: Random): Promise<number | undefined> {
  const postmaster = victims.find(({ name }) => name === "postgres")?.pid();
  if (postmaster === undefined) return undefined;
  const sessions: number[] = [];
  for (const pid of await familyOf(postmaster)) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (/^postgres: .*\d+\.\d+\.\d+\.\d+/.test(command)) sessions.push(pid);
  }
  return random.of(sessions);
}
