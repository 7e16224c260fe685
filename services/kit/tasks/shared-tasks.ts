import { defineTask } from "./task.ts";

/** What several processes do. */

export const RELAY = defineTask({
  name: "relay",
  does: "Publishes the events of the outbox in order, and republishes events that NATS has lost.",
  everyMs: 1_000,
  atOnce: true,
  where: "each service; one replica publishes",
});

export const CONSUME = defineTask({
  name: "consume",
  does: "Handles the events that a consumer receives, and creates the consumer if it is missing.",
  everyMs: 2_000,
  retryMs: 500,
  atOnce: true,
  where: "services that consume events, for each consumer",
});

export const SWEEP_INBOX = defineTask({
  name: "sweep-inbox",
  does: "Deletes inbox rows of events that were handled more than 14 days ago, and resends dead letters that an outage caused.",
  everyMs: 3_600_000,
  where: "services that consume events, for each consumer",
});

export const SEND_MAILS = defineTask({
  name: "send-mails",
  does: "Sends the mails that are due.",
  everyMs: 1_000,
  atOnce: true,
  where: "services that send mail, for each queue",
});

export const SWEEP_ANSWERS = defineTask({
  name: "sweep-answers",
  does: "Deletes stored responses of requests whose Idempotency-Key is older than 24 hours.",
  everyMs: 900_000,
  where: "each service",
});
