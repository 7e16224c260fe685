import { defineTask } from "../kit/tasks/task.ts";

export const MAKE_DIGESTS = defineTask({
  name: "make-digests",
  does: "Creates the digests that are due, for 500 users at a time, and queues their mails.",
  everyMs: 1_000,
  atOnce: true,
  where: "notifications, if mail is configured",
});

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes old notifications, and marks the oldest as read if a user has too many unread ones.",
  everyMs: 6 * 3_600_000,
  atOnce: true,
});
