/**
 * Returns a function that asks once for all calls with one key in a turn of the event loop. The question is asked after
 * the calls, so no answer is older than the call that gets it.
 */
export function coalesced<T>(ask: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const pending = new Map<string, Promise<T>>();
  return (key) => {
    const answer =
      pending.get(key) ??
      new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
        pending.delete(key);
        return ask(key);
      });
    pending.set(key, answer);
    return answer;
  };
}
