import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { eventually } from "../../kit/testing/testing.ts";

export type Received = { path: string; headers: IncomingHttpHeaders; body: string };
type Answering = (res: ServerResponse, nth: number) => void;

/** A receiver of webhooks on this machine, which answers 204 unless a path has another answer. */
export async function startReceiver() {
  const received: Received[] = [];
  const answers = new Map<string, Answering>();
  const at = (path: string) => received.filter((one) => one.path === path);
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const path = req.url!;
      received.push({ path, headers: req.headers, body: Buffer.concat(chunks).toString() });
      const answer = answers.get(path) ?? ((one) => one.writeHead(204).end());
      answer(res, at(path).length);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    base,
    /** Returns what arrived at a path so far. */
    at,
    /** Answers requests for a path; `nth` counts them from 1. */
    on: (path: string, answer: Answering) => void answers.set(path, answer),
    /** Waits until so many requests have arrived at a path. */
    arrived: (path: string, count = 1) =>
      eventually(`${count} requests arrive at ${path}`, async () => {
        const found = at(path);
        return found.length >= count && found;
      }),
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;
