import { refuse } from "../refusals.ts";

/** Returns the one message of a server-streaming request. Refuses more or fewer with 400. */
export async function readSingle<T>(messages: AsyncIterable<T>): Promise<T> {
  const found: T[] = [];
  for await (const message of messages) {
    found.push(message);
    if (found.length > 1) break;
  }
  if (found.length !== 1) throw refuse(400, "malformed_request", "The request must be exactly one message.");
  return found[0]!;
}

export async function* streamOf<T>(message: T): AsyncGenerator<T> {
  yield message;
}

/** Returns the same stream. It throws what `failed` returns for an error, and calls `ended` at any other end. */
export async function* observed<T>(
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
