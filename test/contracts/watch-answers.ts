import diagnostics from "node:diagnostics_channel";
import type { ClientRequest, IncomingMessage } from "node:http";
import { join } from "node:path";
import { expect } from "vitest";
import { createContract } from "./contract.ts";

const MAX_BODY = 64 * 1024;

const gateway = join(import.meta.dirname, "../../gateway");
const contract = createContract({
  // In the gateway's own tests, stand-ins for the services answer with incomplete bodies.
  standIns: () => (expect.getState().testPath ?? "").startsWith(`${gateway}/`),
});
const pending = new Set<Promise<void>>();

// Sees requests by fetch and node:http, but not those over a bare socket. Evaluated once in each process of tests.
const send = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const answer = await send(input, init);
  const path = new URL(input instanceof Request ? input.url : input).pathname;
  const method = init?.method ?? (input instanceof Request ? input.method : "GET");
  const size = Number(answer.headers.get("content-length") ?? Number.NaN);
  const note = (text?: string) => contract.note(method, path, answer.status, answer.headers, text);
  if (method === "HEAD" || !(size > 0 && size <= MAX_BODY)) note();
  else {
    const read = answer.clone().text();
    const noted: Promise<void> = read.then(note, () => note()).finally(() => pending.delete(noted));
    pending.add(noted);
  }
  return answer;
};

diagnostics.subscribe("http.client.response.finish", (message) => {
  const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
  const path = request.path.split("?")[0]!;
  const headers = new Headers(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
  contract.note(request.method, path, response.statusCode ?? 0, headers);
});

/** Returns how the API's answers since the last call differ from gateway/openapi.json. */
export async function undocumentedAnswers(): Promise<string[]> {
  await Promise.all(pending);
  return contract.takeBroken();
}
