import type { Fence } from "../model/statements/fences.ts";
import type { Kind } from "./clients/work.ts";
import type { Schedule } from "./faults/inflict.ts";
import type { Change } from "./seeded/plant.ts";

/** The load that finds a fault: clients and what is done to the platform meanwhile, and the check that notices. */
export type Load = {
  clients: Kind[];
  schedule: Schedule;
  /** How long a round of work is, after which the checks look. */
  roundSeconds: number;
  rounds: number;
};

/**
 * A mistake that somebody could make, and what has to find it: a check of `checks/` under a load, a test, or the model
 * of the deployer, which leaves out fences of its own instead of the product's.
 */
export type SeededFault = { name: string } & (
  | { changes: Change[]; foundBy: { checks: string[]; under: Load } | { test: string; named: string } }
  | { foundBy: { model: Fence[] } }
);

const NOTHING: Schedule = { only: [], pause: { least: 0, most: 0 } };
const often = (only: NonNullable<Schedule["only"]>): Schedule => ({
  only,
  pause: { least: 200, most: 1_200 },
});

const inFile = (file: string, replaced: [from: string, to: string][]): Change[] =>
  replaced.map(([from, to]) => ({ file, from, to }));

const ANY_VERSION = inFile("services/deployer/deployments/transitions-sql.ts", [
  [
    `where d.id = $1 and d.status in ('queued', 'built')
       and d.version = (select max(version) from deployments where service_id = d.service_id)`,
    "where d.id = $1",
  ],
]);

export const seededFaults: SeededFault[] = [
  {
    name: "any version is applied",
    changes: ANY_VERSION,
    foundBy: {
      checks: ["a deployment ends once", "answers as documented"],
      under: {
        clients: ["bursts", "bursts", "bursts"],
        schedule: {
          only: [{ fault: "hang connections", to: ["deployer to variables"] }],
          pause: { least: 300, most: 1_500 },
        },
        roundSeconds: 30,
        rounds: 4,
      },
    },
  },
  {
    name: "any version is applied, also by a process that lost its lease",
    changes: [
      ...ANY_VERSION,
      ...inFile("services/deployer/releases/sql.ts", [
        [
          "where s.id = $2 and w.lease_owner = $1 and s.deleting_at is null for no key update of s`",
          "where s.id = $2 and $1::int is not null and s.deleting_at is null for no key update of s`",
        ],
        [
          "from work w where s.id = $2 and w.service_id = s.id and w.lease_owner = $1\n",
          "from work w where s.id = $2 and w.service_id = s.id and $1::int is not null\n",
        ],
      ]),
      ...inFile("services/deployer/runtime/refusals.ts", [
        ["  if (difference < 0)\n", "  if (Number.isNaN(difference))\n"],
      ]),
    ],
    // On one machine there is one deployer at a time, and each of the three fences stands in for the others.
    foundBy: {
      test: "services/deployer/resilience/fencing.test.ts",
      named: "a deployer that was suspended while another took over applies nothing when it resumes",
    },
  },
  {
    name: "a lease that a living process holds is taken",
    foundBy: { model: ["claims what is leased"] },
  },
  {
    name: "an event is acknowledged before its effect is committed",
    changes: inFile("services/kit/events/consumer.ts", [
      [
        `    await transaction(options.pool, (tx) => apply(tx, options, begun));
    for (const { message } of begun) message.ack();`,
        `    for (const { message } of begun) message.ack();
    await transaction(options.pool, (tx) => apply(tx, options, begun));`,
      ],
    ]),
    foundBy: {
      checks: ["audit records exactly once", "feeds tell each event once"],
      under: {
        clients: ["creations", "notifications", "creations", "notifications", "creations", "registers"],
        schedule: often([
          { fault: "cut connections", to: ["identity to postgres", "notifications to postgres"] },
          { fault: "kill a process", to: ["identity", "notifications"] },
        ]),
        roundSeconds: 25,
        rounds: 5,
      },
    },
  },
  {
    name: "an event is forgotten before it is published",
    changes: inFile("services/kit/events/outbox.ts", [
      [
        "  const { js } = await bus.connected;\n  const acks",
        `  await execute(db, "outbox_forget", "delete from outbox where id = any($1)", [batch.map(({ id }) => id)]);
  const { js } = await bus.connected;\n  const acks`,
      ],
    ]),
    foundBy: {
      checks: ["audit records exactly once", "feeds tell each event once"],
      under: {
        clients: ["creations", "notifications", "creations", "registers"],
        schedule: often([
          { fault: "cut connections", to: ["variables to nats", "identity to nats", "deployer to nats"] },
          { fault: "kill a process", to: ["nats", "variables"] },
        ]),
        roundSeconds: 25,
        rounds: 4,
      },
    },
  },
  {
    name: "an accepted deployment wakes nobody",
    changes: inFile("services/deployer/deployments/accept/accept.ts", [
      ["    enqueue(tx, [serviceId]),\n", ""],
    ]),
    foundBy: {
      checks: ["deployments begin when they are accepted"],
      under: { clients: ["reads"], schedule: NOTHING, roundSeconds: 5, rounds: 4 },
    },
  },
  {
    name: "what becomes due during a step is forgotten",
    changes: inFile("services/deployer/due/sql.ts", [
      [
        `lease_until = null,
       next_at = \${NEXT_AT}`,
        "lease_until = null, next_at = now() + make_interval(secs => $3::float8 / 1000)",
      ],
    ]),
    // Under load it takes a commit within the milliseconds in which a lease is given up, once in many minutes.
    foundBy: {
      test: "services/deployer/due/work-queue.test.ts",
      named: "a service that becomes due while its lease is given up gets another step",
    },
  },
  {
    name: "a mail that is being sent is taken again",
    changes: inFile("services/kit/mail/sql.ts", [
      [
        "set tries = tries + 1, due_at = now() + make_interval(secs => $2)\n",
        "set tries = tries + 1, due_at = now() + make_interval(secs => 0 * $2)\n",
      ],
    ]),
    foundBy: {
      checks: ["one mail for each delivery"],
      under: {
        clients: ["notifications", "notifications", "notifications", "members"],
        schedule: NOTHING,
        roundSeconds: 20,
        rounds: 4,
      },
    },
  },
  {
    name: "the answer under a key is kept after the commit",
    changes: inFile("services/kit/idempotency/idempotency.ts", [
      [
        `  const made = await transaction(pool, async (tx) => {
    if (!(await claim(tx, key))) return undefined;`,
        `  let late: Buffer | undefined;
  const made = await transaction(pool, async (tx) => {
    if (await one(tx, "answer_known", "select 1 from kept_answers where id = $1", [key.id])) return undefined;`,
      ],
      ["    await storeAnswer(tx, key.id, sealed);\n", "    late = sealed;\n"],
      [
        "  const answer = made ?? (await findAnswer(",
        `  if (late) {
    await claim(pool as unknown as Tx, key);
    await storeAnswer(pool as unknown as Tx, key.id, late);
  }
  const answer = made ?? (await findAnswer(`,
      ],
    ]),
    foundBy: {
      checks: [
        "answers as documented",
        "audit records exactly once",
        "deployments dense, ended, each of one key",
      ],
      under: {
        clients: ["creations", "creations", "creations", "creations", "notifications", "creations"],
        schedule: often([
          {
            fault: "cut connections",
            to: ["variables to postgres", "identity to postgres", "deployer to postgres"],
          },
          { fault: "hang connections", to: ["variables to postgres"] },
          { fault: "kill a process", to: ["variables", "deployer"] },
        ]),
        roundSeconds: 30,
        rounds: 6,
      },
    },
  },
  {
    name: "a commit is answered before it is durable",
    changes: inFile("services/kit/postgres/db.ts", [
      ['tx.query("begin")', 'tx.query("begin; set local synchronous_commit = off")'],
    ]),
    foundBy: {
      checks: ["linearizable variables", "audit records exactly once"],
      under: {
        clients: ["registers", "registers", "registers", "registers", "creations"],
        schedule: {
          only: [{ fault: "kill a process", to: ["postgres"] }],
          pause: { least: 1_000, most: 2_500 },
        },
        roundSeconds: 30,
        rounds: 4,
      },
    },
  },
  {
    name: "a gateway does not hear that access was ended",
    changes: inFile("gateway/auth/invalidate-on-events.ts", [
      ["callers.invalidateUser(affectedUser(message.data));", "affectedUser(message.data);"],
    ]),
    foundBy: {
      checks: ["answers as documented"],
      under: { clients: ["applications", "members"], schedule: NOTHING, roundSeconds: 30, rounds: 4 },
    },
  },
  {
    name: "a webhook that could not be stored is answered",
    changes: inFile("services/billing/webhook/intake.ts", [
      [
        "await addEvents(pool, [toStripeEvent(event)]);",
        "await addEvents(pool, [toStripeEvent(event)]).catch(() => [] as string[]);",
      ],
    ]),
    foundBy: {
      checks: ["billing believes what the simulator holds"],
      under: {
        clients: Array.from({ length: 8 }, () => "payments" as const),
        schedule: {
          only: [{ fault: "refuse connections", to: ["billing to postgres"] }],
          pause: { least: 100, most: 1_500 },
        },
        roundSeconds: 20,
        rounds: 8,
      },
    },
  },
];
