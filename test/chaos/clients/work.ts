import type { Random } from "../../../services/kit/testing/random.ts";
import { applications } from "./applications.ts";
import { createClient } from "./client.ts";
import { bursts, deployments } from "./deployments.ts";
import { members } from "./members.ts";
import { notifications } from "./notifications.ts";
import type { Pace } from "./pace.ts";
import { payments } from "./payments.ts";
import { projects, reads } from "./projects.ts";
import type { Record } from "./record.ts";
import type { Shared, Work } from "./shared.ts";
import { creations, registers } from "./variables.ts";

const kinds = {
  ...{ registers, deployments, bursts, members, applications, notifications, payments },
  creations: () => creations,
  projects: () => projects,
  reads: () => reads,
} satisfies { [kind: string]: (record: Record) => Work };

export type Kind = keyof typeof kinds;

/** What clients do, in turn: the first clients of a run do the first of these. */
export const MIXED: Kind[] = [
  ...([
    "registers",
    "creations",
    "deployments",
    "notifications",
    "payments",
    "registers",
    "members",
  ] as const),
  ...(["applications", "projects", "reads", "registers", "bursts"] as const),
];

type Crew = {
  clients: number;
  kinds: Kind[];
  pace: Pace;
  random: (n: number) => Random;
  over: () => boolean;
  /** Begins the names of the clients, which differ from those of another crew of the run. */
  crew?: string;
};

/** Runs clients until it is over; they finish what they have begun. */
export async function work(
  at: { baseUrl: string; token: string },
  shared: Shared,
  record: Record,
  { clients, kinds: wanted, pace, random, over, crew = "c" }: Crew,
): Promise<void> {
  const works = new Map(wanted.map((kind) => [kind, kinds[kind](record)]));
  const one = async (n: number) => {
    const client = createClient(at, `${crew}${n}`, record);
    const own = random(n);
    for (let round = 0; !over(); round++) {
      await works.get(wanted[n % wanted.length]!)!(client, shared, own, round);
      await pace.pause(own.next);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, n) => one(n)));
}
