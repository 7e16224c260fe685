import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../services/kit/testing/random.ts";
import { familyOf } from "../support/processes.ts";
import type { Platform } from "./platform.ts";

/** A fault: `inflict` causes it, and resolves when it is over. */
type Fault = { name: string; inflict: (platform: Platform, random: Random) => Promise<void> };

function signal(pid: number | undefined, name: NodeJS.Signals): void {
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

const faults: (Fault & { weight: number })[] = [
  {
    name: "kill a process",
    weight: 6,
    inflict: async ({ victims }, random) => signal(random.of(victims).pid(), "SIGKILL"),
  },
  {
    name: "stop a process",
    weight: 2,
    inflict: async ({ victims }, random) => signal(random.of(victims).pid(), "SIGTERM"),
  },
  {
    name: "suspend a process",
    weight: 4,
    inflict: async ({ victims }, random) => {
      const pid = random.of(victims).pid();
      signal(pid, "SIGSTOP");
      await delay(random.between(100, 6_000));
      signal(pid, "SIGCONT");
    },
  },
  {
    name: "kill a session of the database",
    weight: 1,
    inflict: async (platform, random) => signal(await databaseSession(platform, random), "SIGKILL"),
  },
  {
    name: "cut connections",
    weight: 6,
    inflict: async ({ proxies }, random) => random.of([...proxies.values()]).cut(),
  },
  {
    name: "refuse connections",
    weight: 3,
    inflict: async ({ proxies }, random) => {
      const proxy = random.of([...proxies.values()]);
      proxy.shut();
      await delay(random.between(100, 4_000));
      await proxy.open();
    },
  },
  {
    name: "hang connections",
    weight: 3,
    inflict: async ({ proxies }, random) => {
      const proxy = random.of([...proxies.values()]);
      const outcome = random.of(["kept", "lost", "silent"] as const);
      proxy.hang(outcome);
      await delay(random.between(100, 8_000));
      proxy.goOn(outcome);
    },
  },
];

/** Causes one fault at a time, with a pause after each, until a time. Returns the number of faults of each name. */
export async function inflictFaults(
  platform: Platform,
  random: Random,
  until: number,
): Promise<Map<string, number>> {
  const urn = faults.flatMap((fault) => Array<Fault>(fault.weight).fill(fault));
  const counts = new Map<string, number>();
  while (Date.now() < until) {
    const fault = random.of(urn);
    counts.set(fault.name, (counts.get(fault.name) ?? 0) + 1);
    await fault.inflict(platform, random);
    await delay(random.between(100, 3_000));
  }
  return counts;
}
