import { html } from "../../../services/kit/html.ts";
import { ApiRefusal } from "../kit/api.ts";
import { signInAt } from "../kit/return-path.ts";
import { type Answer, type Visit, withRefusal } from "../kit/visit.ts";
import { signedInUser } from "../sign-in/sign-in.ts";

/** A request without its challenge never began. */
const OVER = ["challenge_expired", "required"];

/**
 * Returns the page that leads back to the provider. It is no redirect: Chromium holds those that follow a form against
 * `form-action`, and the application's own address at the end of them is not of this origin.
 */
export function goOn(redirectTo: string, title = "One moment"): Answer {
  const content = html`<p>If nothing happens, <a href="${redirectTo}">continue here</a>. Once your application has opened, you can close this page.</p>`;
  return { page: { title, content, goesTo: redirectTo } };
}

/** Returns the page for a challenge that cannot be answered, here or by this user. Rethrows any other error. */
export async function challengeRefused(visit: Visit, error: unknown, here: string): Promise<Answer> {
  if (!(error instanceof ApiRefusal)) throw error;
  if (error.code === "subject_mismatch") return otherUser(visit, error, here);
  // Answered in an earlier session of the same user.
  const answered = error.code === "idempotency_key_reused";
  if (!answered && !error.reasons.some((reason) => OVER.includes(reason))) throw error;
  const content = html`<p>This request was already answered, or it was open for more than ten minutes.</p>
<p>To connect an application, start again in the application.</p>
<p><a href="/connected-applications">See connected applications</a></p>`;
  return withRefusal({ title: "This request is over", content }, error);
}

async function otherUser(visit: Visit, error: ApiRefusal, here: string): Promise<Answer> {
  const me = await signedInUser(visit);
  const other = visit.lastLogin === me?.email ? undefined : visit.lastLogin;
  const content = html`<p>You are signed in as <strong>${me?.email}</strong>. Another user of this browser started to connect the application${other !== undefined && html`, <strong>${other}</strong>`}, and only that user can finish it.</p>
<p><a class="button" href="${signInAt(here)}">Sign in as ${other ?? "the other user"}</a></p>
<p>To connect it as ${me?.email ?? "yourself"}, start again in the application.</p>`;
  return withRefusal({ title: "This request is for another user", content }, error);
}
