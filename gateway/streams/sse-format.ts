import { errorEnvelope, type Problem } from "../http/problem.ts";
import type { Follow } from "../routing/follow.ts";

/** Formats one SSE event. An id alone yields an id-only event; an empty message yields nothing. */
export function formatEvent({ events }: Follow, json: Buffer): string {
  const message = JSON.parse(json.toString()) as Record<string, unknown>;
  const name = Object.keys(message).find((member) => events.has(member));
  const id = message.id ? `id: ${String(message.id).replaceAll(/[\0\r\n]/g, "")}\n` : "";
  if (name === undefined) return id && `${id}\n`;
  return `${id}event: ${name}\ndata: ${JSON.stringify(message[name])}\n\n`;
}

/** Formats the last event of a stream: a reconnection hint for a 503, else the problem; nothing without one. */
export function finalEvent(problem: Problem | undefined, requestId: string): string {
  if (!problem) return "";
  if (problem.status === 503) return reconnectHint();
  return `event: problem\ndata: ${errorEnvelope(problem, requestId)}\n\n`;
}

/** Returns a random delay, so that not all clients reconnect at the same moment. */
function reconnectHint(): string {
  return `retry: ${500 + Math.floor(Math.random() * 1_500)}\n\n`;
}
