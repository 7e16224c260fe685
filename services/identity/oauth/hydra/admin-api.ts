import type { Logger } from "../../../kit/log.ts";
import { fetch } from "../../../kit/network/fetch.ts";
import { isObject } from "../../../kit/process/config.ts";
import { ProviderUnavailable } from "../port.ts";

const TIMEOUT_MS = 4_000;
const MAX_ANSWER = 1024 * 1024;

type Call = {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  query?: Record<string, string>;
  json?: object;
  form?: Record<string, string>;
  /** The statuses that the caller handles. */
  expect: number[];
};

/** An answer with an expected status. Its body is empty unless it is a JSON object. */
export type Answer = { status: number; body: Record<string, unknown> };

/**
 * Calls Ory Hydra's admin API and returns what `read` makes of the answer. A call rejects with ProviderUnavailable when
 * Hydra does not answer in time, answers with an unexpected status or an error that is not Hydra's, or when `read`
 * throws. Failures are logged once until Hydra answers again; queries and bodies, which hold challenges and tokens,
 * are never logged.
 */
export function createAdminApi({ url, log }: { url: string; log: Logger }) {
  let failing = false;

  return async function send<T>(call: Call, read: (answer: Answer) => T): Promise<T> {
    const { method, path } = call;
    try {
      const result = read(await request(url, call));
      if (failing) log.info("Ory Hydra answers again");
      failing = false;
      return result;
    } catch (error) {
      const why = reasonOf(error);
      if (!failing) log.warn({ method, path, why }, "Ory Hydra does not answer as it should");
      failing = true;
      throw new ProviderUnavailable(`${method} ${path}: ${why}`);
    }
  };
}

async function request(url: string, { method, path, query = {}, json, form, expect }: Call): Promise<Answer> {
  const search = new URLSearchParams(query);
  const type = json ? "application/json" : form && "application/x-www-form-urlencoded";
  const response = await fetch(`${url}/admin${path}${search.size > 0 ? `?${search}` : ""}`, {
    method,
    headers: { accept: "application/json", ...(type && { "content-type": type }) },
    ...((json ?? form) && { body: json ? JSON.stringify(json) : new URLSearchParams(form).toString() }),
    // An admin API never redirects, and a challenge must not be sent to another host.
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const { status } = response;
  const body = await readObject(response);
  if (!expect.includes(status)) throw new Error(`status ${status}`);
  // Hydra's 404 has a JSON body; one without comes from another server at this URL.
  if (status >= 400 && !body) throw new Error(`status ${status} without an error of Hydra's`);
  return { status, body: body ?? {} };
}

/** Returns the body if it is a JSON object, and undefined otherwise. */
async function readObject(response: Response): Promise<Record<string, unknown> | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > MAX_ANSWER) throw new Error("an answer over 1 MiB");
    parts.push(part);
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(parts).toString());
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error;
  if (name === "TimeoutError") return `no answer within ${TIMEOUT_MS / 1_000} s`;
  return (cause as { code?: string } | undefined)?.code ?? message;
}
