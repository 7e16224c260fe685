import { defineTask } from "../kit/tasks/task.ts";

export const MAKE_DIGESTS = defineTask({
  name: "make-digests",
  does: "Makes the digests that are due, of 500 users at a time, and queues their mails.",
  everyMs: 1_000,
  atOnce: true,
  where: "notifications, where mail is sent",
});

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes old notifications, and marks the oldest as read where a user has too many unread.",
  everyMs: 6 * 3_600_000,
  atOnce: true,
});
