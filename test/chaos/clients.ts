import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../services/kit/testing/random.ts";
import type { Access } from "./history.ts";

/** An answer; status 0 when there was none. */
export type Answer = { status: number; body: unknown };

/** A change requested under one key until its outcome was known. `ids`: the request ids of all tries. */
export type Effect = { action: string; name: string; id: string; ids: string[]; service?: string };

/** What clients observed, for the checks afterwards. */
export type Record = {
  history: Access[];
  effects: Effect[];
  /** Request ids of writes without a key, by outcome: it determines how many audit records each may have. */
  acknowledged: string[];
  refused: string[];
  unknown: string[];
  statuses: Map<number, number>;
  /** Answers that no fault explains. */
  wrong: string[];
};

export const createRecord = (): Record => ({
  history: [],
  effects: [],
  acknowledged: [],
  refused: [],
  unknown: [],
  statuses: new Map(),
  wrong: [],
});

const DEADLINE_MS = 35_000;
/** How long the outcome of a keyed change may be unknown: longer than any fault and the pause after it. */
const OUTCOME_MS = 180_000;
const EXPECTED = new Set([0, 200, 201, 202, 204, 404, 409, 503]);

/** A rollback may be requested at the moment when its version leaves the plan's history. */
const isQuota = ({ status, body }: Answer) =>
  status === 403 && (body as { error: { code: string } }).error.code === "quota_exceeded";

export type Client = ReturnType<typeof createClient>;

export function createClient(at: { baseUrl: string; token: string }, name: string, record: Record) {
  let requests = 0;

  async function once(method: string, path: string, body: unknown, headers: { [name: string]: string }) {
    const url = path.startsWith("http") ? path : at.baseUrl + path;
    const raw = body instanceof Uint8Array;
    const authorization = path.startsWith("http") ? undefined : { authorization: `Bearer ${at.token}` };
    try {
      const answer = await fetch(url, {
        method,
        headers: {
          ...authorization,
          ...(body !== undefined && !raw && { "content-type": "application/json" }),
          ...headers,
        },
        body: body === undefined ? undefined : raw ? new Uint8Array(body) : JSON.stringify(body),
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
      const text = await answer.text();
      return { status: answer.status, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
    } catch {
      return { status: 0, body: undefined };
    }
  }

  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: { [name: string]: string } = {},
  ) {
    const id = headers["x-request-id"] ?? `${name}-${requests++}`;
    const answer = await once(method, path, body, { "x-request-id": id, ...headers });
    record.statuses.set(answer.status, (record.statuses.get(answer.status) ?? 0) + 1);
    // The platform is not listening: an immediate retry would show nothing new.
    if (answer.status === 0) await delay(200);
    if (!EXPECTED.has(answer.status) && !isQuota(answer))
      record.wrong.push(`${method} ${path} (${id}): ${answer.status} ${JSON.stringify(answer.body)}`);
    return { ...answer, id };
  }

  return {
    name,
    send,
    wrong: (what: string) => void record.wrong.push(what),

    /** A write without a key: it is acknowledged, refused, or its outcome is unknown. */
    async write(method: string, path: string, body?: unknown): Promise<Answer> {
      const { id, ...answer } = await send(method, path, body);
      const outcome =
        answer.status === 0 || answer.status >= 500
          ? "unknown"
          : answer.status >= 400
            ? "refused"
            : "acknowledged";
      record[outcome].push(id);
      return answer;
    },

    /**
     * A POST under one Idempotency-Key, tried until its outcome is known, and sometimes once more after that. Returns
     * undefined when it was refused.
     */
    async effect(
      action: string,
      what: string,
      path: string,
      body: unknown,
      random: Random,
      service?: string,
    ): Promise<{ id: string } | undefined> {
      const key = `${name}-${what}`;
      const ids: string[] = [];
      const attempt = () => {
        const id = `${key}-${ids.length}`;
        ids.push(id);
        return send("POST", path, body, { "idempotency-key": key, "x-request-id": id });
      };
      const deadline = Date.now() + OUTCOME_MS;
      for (;;) {
        const { status, body: made } = await attempt();
        const underWay = status === 409 && /still under way/.test(JSON.stringify(made));
        if (status !== 0 && status < 500 && !underWay) {
          if (status >= 400) {
            if (ids.length > 1 && status === 409)
              record.wrong.push(`${key}: refused at a retry: ${JSON.stringify(made)}`);
            return undefined;
          }
          const { id } = made as { id: string };
          record.effects.push({ action, name: what, id, ids, service });
          if (random.next() < 0.2) {
            const second = await attempt();
            const same = JSON.stringify(second.body) === JSON.stringify(made);
            if (second.status !== 0 && second.status < 500 && !same)
              record.wrong.push(
                `${key}: ${JSON.stringify(made)}, and at a retry ${JSON.stringify(second.body)}`,
              );
          }
          return { id };
        }
        if (Date.now() > deadline) {
          record.wrong.push(
            `${key}: no outcome within ${OUTCOME_MS / 1000} s, last ${status} ${JSON.stringify(made)}`,
          );
          return undefined;
        }
        await delay(random.between(100, 800));
      }
    },
  };
}
