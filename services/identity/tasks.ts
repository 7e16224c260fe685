import { defineTask } from "../kit/tasks/task.ts";

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes what expired, such as sessions, invitations and links, and ends unused grants and registrations.",
  everyMs: 15 * 60_000,
});

export const RENEW_KEYS = defineTask({
  name: "renew-keys",
  does: "Makes the next key that signs access tokens before it is needed, and takes up those of other replicas.",
  everyMs: 60_000,
  where: "identity, where it is the OAuth provider",
});
