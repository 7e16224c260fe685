import { type Dispatcher, Pool } from "undici";
import { DEADLINE_MS } from "../upstream/unary.ts";
import { type Envelope, enclosed, splitter } from "./connect-envelope.ts";

export type StreamPool = ReturnType<typeof createStreamUpstream>;

/** What comes back of a call: its messages in order, then its end; `undefined` when it broke off. */
export type Listener = {
  message: (json: Buffer) => void;
  /** The call is over. `error` is the service's Connect error, as JSON. */
  end: (error: Buffer | undefined) => void;
  broken: (error: Error) => void;
};

/** A call under way. */
export type Call = { pause: () => void; resume: () => void; cancel: () => void };

const canceled = () => Object.assign(new Error("the stream is not wanted any more"), { name: "AbortError" });

/** Calls of server-streaming RPCs of one service: Connect JSON over HTTP/1.1, a connection for each. */
export function createStreamUpstream(origin: string) {
  const pool = new Pool(origin, {
    pipelining: 1,
    connect: { timeout: 3_000 },
    headersTimeout: DEADLINE_MS + 2_000,
    bodyTimeout: 0,
  });
  return {
    /** Calls an RPC with one message. After `cancel` nothing is heard of the call. */
    open(path: string, headers: string[], message: Buffer | string, listener: Listener): Call {
      const split = splitter();
      let controller: Dispatcher.DispatchController | undefined;
      let [over, refused] = [false, false];
      const body: Buffer[] = [];

      const finish = (how: () => void) => {
        if (!over) how();
        over = true;
      };
      const take = ({ end, json }: Envelope) => {
        if (over) return;
        if (!end) return listener.message(json);
        const { error } = JSON.parse(json.toString()) as { error?: object };
        finish(() => listener.end(error && Buffer.from(JSON.stringify(error))));
      };
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart(started) {
          controller = started;
          if (over) started.abort(canceled());
        },
        onResponseStart(_controller, status, answered) {
          refused =
            status !== 200 || !String(answered["content-type"]).startsWith("application/connect+json");
        },
        onResponseData(_controller, chunk) {
          if (refused) body.push(chunk);
          else for (const envelope of split(chunk)) take(envelope);
        },
        onResponseEnd() {
          if (refused) finish(() => listener.end(Buffer.concat(body)));
          finish(() => listener.broken(new Error("a stream ended without its end")));
        },
        onResponseError(_controller, error) {
          finish(() => listener.broken(error));
        },
      };
      pool.dispatch({ method: "POST", path, headers, body: enclosed(message) }, handler);
      return {
        pause: () => controller?.pause(),
        resume: () => controller?.resume(),
        cancel() {
          if (over) return;
          over = true;
          controller?.abort(canceled());
        },
      };
    },
    close: () => pool.destroy(),
  };
}
