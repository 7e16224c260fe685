import Stripe from "stripe";
import { type Db, execute, one, type Pool } from "../../kit/postgres/db.ts";
import { isStripeError, type Provider } from "./provider.ts";

type Make<T> = (stripe: Stripe, options: { idempotencyKey: string }) => Promise<T>;

/**
 * Makes something at the payment provider under an idempotency key, however often it is called: after an answer that was
 * lost, the same is answered again. The provider repeats also a 5xx that a key was answered, so the next call has
 * another key. A key is forgotten after a day: callers look first whether the thing is there.
 */
export async function makeOnce<T>(
  { pool, provider }: { pool: Pool; provider: Provider },
  name: string,
  make: Make<T>,
): Promise<T> {
  const attempt = await findAttempt(pool, name);
  return provider.ask(async (stripe) => {
    try {
      return await make(stripe, { idempotencyKey: `${name}:${attempt}` });
    } catch (error) {
      if (isSpent(error)) await nextAttempt(pool, name, attempt);
      throw error;
    }
  });
}

/** Whether a key is of no use after an error: it answers a 5xx again, or is of another request that is not under way. */
function isSpent(error: unknown): boolean {
  if (isStripeError(error, "idempotency_key_in_use")) return false;
  const { StripeAPIError, StripeIdempotencyError } = Stripe.errors;
  return error instanceof StripeAPIError || error instanceof StripeIdempotencyError;
}

async function findAttempt(db: Db, name: string): Promise<number> {
  const text = "select attempt from provider_attempts where name = $1";
  return (await one<{ attempt: number }>(db, "provider_attempt_find", text, [name]))?.attempt ?? 0;
}

/** Has the next `makeOnce` make another, because what was made is no longer there. */
export async function makeAnother(db: Db, name: string): Promise<void> {
  await nextAttempt(db, name, await findAttempt(db, name));
}

function nextAttempt(db: Db, name: string, attempt: number): Promise<number> {
  return execute(
    db,
    "provider_attempt_next",
    `insert into provider_attempts (name, attempt) values ($1, $2 + 1)
     on conflict (name) do update set attempt = greatest(provider_attempts.attempt, $2 + 1)`,
    [name, attempt],
  );
}
