import { defineTask } from "../kit/tasks/task.ts";

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes expired sessions, invitations, links and the like, and ends unused grants and registrations.",
  everyMs: 15 * 60_000,
});

export const RENEW_KEYS = defineTask({
  name: "renew-keys",
  does: "Creates the next signing key for access tokens before it is needed, and loads keys that other replicas created.",
  everyMs: 60_000,
  where: "identity, if it is the OAuth provider",
});
