import { defineTask } from "../kit/tasks/task.ts";

/** Woken by each change; the period finds what was missed although nothing said so. */
export const REFRESH_FOLLOWED = defineTask({
  name: "refresh-followed",
  does: "Reads scopes of resolved sets that streams follow, when they change.",
  everyMs: 60_000,
  retryMs: 500,
});
