import { type Dispatcher, Pool } from "undici";
import { retryUnsent } from "../../services/kit/rpc/unsent.ts";

/** A service's response, its body undecoded. */
export type UpstreamResponse = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
};

export type UnaryClient = ReturnType<typeof createUnaryClient>;

const EMPTY = Buffer.alloc(0);

/** How long a service may take; sent as connect-timeout-ms. */
export const DEADLINE_MS = 30_000;

// What a call fails with when its service restarts.
const CONNECTION_ERRORS = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_CONNECT_TIMEOUT"]);

/** Calls unary RPCs of one service: Connect JSON over keep-alive HTTP/1.1. */
export function createUnaryClient(origin: string, connections = 64) {
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: 3_000 },
    headersTimeout: DEADLINE_MS + 2_000,
    bodyTimeout: DEADLINE_MS,
  });
  return {
    /**
     * Posts a request message. Rejects when the service is unreachable or does not respond within the deadline. A call
     * that found no connection is tried again; a `safe` one is also sent once more when its connection breaks.
     */
    async call(
      path: string,
      headers: string[],
      body: Buffer | string,
      safe: boolean,
    ): Promise<UpstreamResponse> {
      const send = () => retryUnsent(() => post(pool, path, headers, body));
      try {
        return await send();
      } catch (error) {
        if (!safe || !CONNECTION_ERRORS.has((error as { code?: string }).code ?? "")) throw error;
        return send();
      }
    },
    /** Resolves when all open calls have ended. */
    close: () => pool.close(),
  };
}

function post(pool: Pool, path: string, sent: string[], body: Buffer | string): Promise<UpstreamResponse> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let headers: UpstreamResponse["headers"] = {};
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart(_controller, statusCode, responseHeaders) {
        status = statusCode;
        headers = responseHeaders;
      },
      onResponseData(_controller, chunk) {
        if (!first) first = chunk;
        else if (!more) more = [first, chunk];
        else more.push(chunk);
      },
      onResponseEnd() {
        resolve({ status, headers, body: more ? Buffer.concat(more) : (first ?? EMPTY) });
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    };
    pool.dispatch({ method: "POST", path, headers: sent, body }, handler);
  });
}
