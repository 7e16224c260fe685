import http from "node:http";
import type { AddressInfo } from "node:net";
import { eventually } from "../../services/kit/testing/testing.ts";

export type ServerEvent<T = Record<string, unknown>> = { id: string; event: string; data: T };

export type EventSource = Awaited<ReturnType<typeof openEvents>>;

/** Opens a stream of server-sent events over a separate connection, which `close` cuts. */
export async function openEvents(
  url: string,
  options: { token: string; lastEventId?: string; accept?: string; method?: string },
) {
  const { token, lastEventId, accept = "text/event-stream", method = "GET" } = options;
  const headers = {
    authorization: `Bearer ${token}`,
    accept,
    ...(lastEventId !== undefined && { "last-event-id": lastEventId }),
  };
  const request = http.request(url, { headers, method, agent: false });
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on("response", resolve).on("error", reject).end();
  });
  const events: ServerEvent[] = [];
  let [text, rest, retry, comments, ended, position] = ["", "", "", 0, false, ""];
  const take = (block: string) => {
    const fields: Record<string, string> = {};
    for (const line of block.split("\n")) {
      const [, name = "", value = ""] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
      if (name === "") comments++;
      else fields[name] = value;
    }
    position = fields.id ?? position;
    retry = fields.retry ?? retry;
    if (fields.data === undefined) return;
    events.push({ id: position, event: fields.event ?? "message", data: JSON.parse(fields.data) });
  };
  response.setEncoding("utf8");
  response.on("data", (chunk: string) => {
    text += chunk;
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop()!;
    blocks.forEach(take);
  });
  response
    .on("error", () => {})
    .on("close", () => {
      ended = true;
    });
  return {
    status: response.statusCode!,
    headers: response.headers,
    events,
    port: (request.socket!.address() as AddressInfo).port,
    text: () => text,
    /** Milliseconds after which the server asks the client to reconnect. */
    retry: () => (retry === "" ? undefined : Number(retry)),
    comments: () => comments,
    isEnded: () => ended,
    ended: () => eventually("the stream ends", async () => ended),
    /** Waits for the first event that `fits` accepts. */
    until: <T = Record<string, unknown>>(what: string, fits: (event: ServerEvent<T>) => boolean) =>
      eventually(`an event arrives: ${what}`, async () =>
        (events as ServerEvent<T>[]).find((event) => fits(event)),
      ),
    pause: () => response.pause(),
    resume: () => response.resume(),
    close: () => request.destroy(),
  };
}
