import { type Dispatcher, Pool } from "undici";

/** A service's answer, its bytes as they came. */
export type UpstreamResponse = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
};

export type UnaryClient = ReturnType<typeof createUnaryClient>;

const EMPTY = Buffer.alloc(0);

/** How long a service may take; told to it as connect-timeout-ms. */
export const DEADLINE_MS = 30_000;

// Connections break when a service restarts: nothing of the answer has come then.
const BROKEN = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_CONNECT_TIMEOUT"]);

/**
 * Keep-alive connections to one service. A call rejects when the service can not be reached or does
 * not answer within the deadline.
 */
export function createUnaryClient(origin: string, connections = 64) {
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: 3_000 },
    headersTimeout: DEADLINE_MS + 2_000,
    bodyTimeout: DEADLINE_MS,
  });
  return {
    /** POSTs a request message; `safe` calls are sent once more when the connection breaks. */
    async call(
      path: string,
      headers: string[],
      body: Buffer | string,
      safe: boolean,
    ): Promise<UpstreamResponse> {
      try {
        return await post(pool, path, headers, body);
      } catch (error) {
        if (!safe || !BROKEN.has((error as { code?: string }).code ?? "")) throw error;
        return post(pool, path, headers, body);
      }
    },
    /** Ends when the calls under way have ended. */
    close: () => pool.close(),
  };
}

function post(pool: Pool, path: string, headers: string[], body: Buffer | string): Promise<UpstreamResponse> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let answered: UpstreamResponse["headers"] = {};
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart(_controller, statusCode, responseHeaders) {
        status = statusCode;
        answered = responseHeaders;
      },
      onResponseData(_controller, chunk) {
        if (!first) first = chunk;
        else if (!more) more = [first, chunk];
        else more.push(chunk);
      },
      onResponseEnd() {
        resolve({ status, headers: answered, body: more ? Buffer.concat(more) : (first ?? EMPTY) });
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    };
    pool.dispatch({ method: "POST", path, headers, body }, handler);
  });
}
