import { Refusal, refusalIn, refusalOf, Unreachable } from "./errors.ts";
import { final, isFinal, isTransient, ofCaller, pauseAfter, unreachableFor } from "./retries.ts";
import { anyOf, pause, silenceAfter } from "./signals.ts";
import { type Frame, framesOf } from "./sse.ts";

export type StreamOptions = {
  signal?: AbortSignal;
  /** The `id` of the last event that was seen: the stream goes on after it. */
  lastEventId?: string;
  /** Called when a connection was lost and the stream is about to be resumed. */
  onReconnect?: (error: unknown) => void;
  /** Called when the stream is open: at first, and after each lost connection. Nothing need arrive on it. */
  onOpen?: () => void;
};

/** One event of a stream. `id` is what to resume after. */
export type StreamEvent<Name extends string, Data> = { event: Name; data: Data; id?: string };

const NO_STREAM = "The server does not offer this stream. It may be of an earlier version.";
/** A stream sends something every 15 s. */
const SILENCE_MS = 45_000;

/** Sends the request of a stream. */
type Open = (init: RequestInit & { headers: Record<string, string> }) => Promise<Response>;

/**
 * Follows a stream until the server ends it. After a lost connection it goes on after the last event. Throws `Refusal`
 * when the caller loses access, and `Unreachable` after `retries` tries in a row.
 */
export async function* follow<E extends StreamEvent<string, unknown>>(
  open: Open,
  options: StreamOptions,
  retries: number,
): AsyncGenerator<E, void> {
  const { signal, onReconnect, onOpen } = options;
  let { lastEventId } = options;
  for (let failures = 0; ; ) {
    let waitMs: number | undefined;
    let reason: unknown;
    const silence = silenceAfter(SILENCE_MS);
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (lastEventId) headers["last-event-id"] = lastEventId;
      const init = { method: "GET", headers, signal: anyOf(signal, silence.signal) };
      const response = await open(init);
      if (!response.ok) throw await refusalOf(response);
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
        await response.body?.cancel();
        throw final(new Unreachable(NO_STREAM));
      }
      await ofCaller(async () => onOpen?.());
      for await (const frame of framesOf(response.body!, silence.heard)) {
        failures = 0;
        if (frame.id !== undefined) lastEventId = frame.id;
        if (frame.retry !== undefined) waitMs = frame.retry;
        if (frame.event === "problem") throw refusalIn(frame.data);
        if (frame.event !== undefined) yield eventOf<E>(frame);
      }
      // Without a hint when to come back the stream is complete.
      if (waitMs === undefined) return;
      reason = new Unreachable("The server ends its streams.");
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Refusal ? !isTransient(error) : isFinal(error)) throw error;
      if (failures++ >= retries) throw error instanceof Refusal ? error : unreachableFor(error);
      waitMs = pauseAfter(failures - 1, error);
      reason = error;
    } finally {
      silence.end();
    }
    onReconnect?.(reason);
    await pause(waitMs, signal);
  }
}

const eventOf = <E extends StreamEvent<string, unknown>>({ event, data, id }: Frame): E =>
  ({ event, data: JSON.parse(data), ...(id !== undefined && { id }) }) as E;
