import { defineTask } from "../services/kit/tasks/task.ts";

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes expired request counts, stored responses, stream slots and used confirmations.",
  everyMs: 60_000,
});

export const RENEW_SLOTS = defineTask({
  name: "renew-slots",
  does: "Renews the slots of the streams that are open at this gateway.",
  everyMs: 10_000,
});
