import { defineTask } from "../services/kit/tasks/task.ts";

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes counts of requests, answers and slots of streams that have expired.",
  everyMs: 60_000,
});

export const RENEW_SLOTS = defineTask({
  name: "renew-slots",
  does: "Prolongs the slots of the streams that are open here.",
  everyMs: 10_000,
});
