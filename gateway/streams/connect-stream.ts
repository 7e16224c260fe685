import { type Dispatcher, Pool } from "undici";
import { DEADLINE_MS } from "../upstream/unary.ts";
import { createEnvelopeDecoder, type Envelope, encodeEnvelope } from "./connect-envelope.ts";

export type StreamClient = ReturnType<typeof createStreamClient>;

/** Callbacks of a call: its messages in order, then either `ended` or `broken`, once. */
type CallListener = {
  message: (json: Buffer) => void;
  /** `error` is the service's Connect error, as JSON. */
  ended: (error: Buffer | undefined) => void;
  broken: (error: Error) => void;
};

/** An open call. */
export type Call = { pause: () => void; resume: () => void; cancel: () => void };

const canceled = () => Object.assign(new Error("the stream was canceled"), { name: "AbortError" });

/** Calls server-streaming RPCs of one service: Connect JSON over HTTP/1.1, one connection per call. */
export function createStreamClient(origin: string) {
  const pool = new Pool(origin, {
    pipelining: 1,
    connect: { timeout: 3_000 },
    headersTimeout: DEADLINE_MS + 2_000,
    bodyTimeout: 0,
  });
  return {
    /** Calls an RPC with one message. After `cancel` nothing is called back. */
    open(path: string, headers: string[], message: Buffer | string, listener: CallListener): Call {
      const { handler, call } = createCall(listener);
      pool.dispatch({ method: "POST", path, headers, body: encodeEnvelope(message) }, handler);
      return call;
    },
    close: () => pool.destroy(),
  };
}

function createCall(listener: CallListener): { handler: Dispatcher.DispatchHandler; call: Call } {
  const decode = createEnvelopeDecoder();
  const refusal: Buffer[] = [];
  let controller: Dispatcher.DispatchController | undefined;
  let [over, refused] = [false, false];

  const finish = (callback: () => void) => {
    if (!over) callback();
    over = true;
  };
  const receive = ({ end, json }: Envelope) => {
    if (over) return;
    if (!end) return listener.message(json);
    const { error } = JSON.parse(json.toString()) as { error?: object };
    finish(() => listener.ended(error && Buffer.from(JSON.stringify(error))));
  };
  return {
    handler: {
      onRequestStart(started) {
        controller = started;
        if (over) started.abort(canceled());
      },
      onResponseStart(_controller, status, headers) {
        refused = status !== 200 || !String(headers["content-type"]).startsWith("application/connect+json");
      },
      onResponseData(_controller, chunk) {
        if (refused) refusal.push(chunk);
        else for (const envelope of decode(chunk)) receive(envelope);
      },
      onResponseEnd() {
        if (refused) finish(() => listener.ended(Buffer.concat(refusal)));
        finish(() => listener.broken(new Error("the stream broke off before its end")));
      },
      onResponseError(_controller, error) {
        finish(() => listener.broken(error));
      },
    },
    call: {
      pause: () => controller?.pause(),
      resume: () => controller?.resume(),
      cancel() {
        if (over) return;
        over = true;
        controller?.abort(canceled());
      },
    },
  };
}
