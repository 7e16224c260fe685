import Stripe from "stripe";
import { type Db, execute, one, type Pool } from "../../kit/postgres/db.ts";
import { nameAt } from "./installation.ts";
import { isStripeError, type Provider } from "./provider.ts";

type Make<T> = (stripe: Stripe, options: { idempotencyKey: string }) => Promise<T>;

/**
 * Makes something at the payment provider under an idempotency key, however often it is called: after an answer that was
 * lost, the same is answered again. `expected` as in `Provider.ask`. The provider repeats also a 5xx or a refusal that a
 * key was answered, so the next call has another key: a refund of a payment that is disputed is possible once the bank has
 * decided. The provider forgets a key after a day: callers check first whether the thing exists.
 */
export async function makeOnce<T>(
  { pool, provider }: { pool: Pool; provider: Provider },
  name: string,
  make: Make<T>,
  ...expected: string[]
): Promise<T> {
  const attempt = await findAttempt(pool, name);
  return provider.ask(
    async (stripe) => {
      try {
        // Installations that share an account at the provider may have accounts of the same ids.
        return await make(stripe, { idempotencyKey: nameAt(provider.installation, `${name}:${attempt}`) });
      } catch (error) {
        if (isSpent(error)) await nextAttempt(pool, name, attempt);
        throw error;
      }
    },
    ...expected,
  );
}

/** Whether a key is of no use after an error: it answers that again, or is of another request that is not under way. */
function isSpent(error: unknown): boolean {
  if (isStripeError(error, "idempotency_key_in_use")) return false;
  const { StripeAPIError, StripeIdempotencyError, StripeInvalidRequestError } = Stripe.errors;
  return [StripeAPIError, StripeIdempotencyError, StripeInvalidRequestError].some(
    (kind) => error instanceof kind,
  );
}

async function findAttempt(db: Db, name: string): Promise<number> {
  const text = "select attempt from provider_attempts where name = $1";
  return (await one<{ attempt: number }>(db, "provider_attempt_find", text, [name]))?.attempt ?? 0;
}

/** Has the next `makeOnce` use another idempotency key, because what was made is no longer there. */
export async function discardIdempotencyKey(db: Db, name: string): Promise<void> {
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
