import { refuse } from "./errors.ts";

/** The one message of a server-streaming request; more or fewer are refused. */
export async function single<T>(messages: AsyncIterable<T>): Promise<T> {
  const found: T[] = [];
  for await (const message of messages) {
    found.push(message);
    if (found.length > 1) break;
  }
  if (found.length !== 1) throw refuse(400, "malformed_request", "The request must be one message.");
  return found[0]!;
}

export async function* once<T>(message: T): AsyncGenerator<T> {
  yield message;
}

/** Passes a stream on: what it throws becomes what `failed` makes of it, and `ended` hears of any other end. */
export async function* watched<T>(
  messages: AsyncIterable<T>,
  failed: (thrown: unknown) => Error,
  ended: () => void,
): AsyncGenerator<T> {
  let broken = false;
  try {
    yield* messages;
  } catch (thrown) {
    broken = true;
    throw failed(thrown);
  } finally {
    if (!broken) ended();
  }
}
