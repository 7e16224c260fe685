import { defineTask } from "../kit/tasks/task.ts";

export const MAKE_DIGESTS = defineTask({
  name: "make-digests",
  does: "Creates the digests that are due, for 500 users at a time, and queues their mails.",
  everyMs: 1_000,
  atOnce: true,
  where: "notifications, if mail is configured",
});

export const DELIVER_WEBHOOKS = defineTask({
  name: "deliver-webhooks",
  does: "Sends the events that are due to webhooks, and disables those that failed for three days.",
  everyMs: 1_000,
  atOnce: true,
});

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes old notifications and deliveries of webhooks, and marks the oldest as read if a user has too many unread ones.",
  everyMs: 6 * 3_600_000,
  atOnce: true,
});

export const MEASURE_NODE = defineTask({
  name: "measure-node",
  does: "Measures the disk and the memory of its node, and notifies the operators when they run short.",
  everyMs: 30_000,
  atOnce: true,
});
