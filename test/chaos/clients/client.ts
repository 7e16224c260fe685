import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../../services/kit/testing/random.ts";
import type { Effect, Record } from "./record.ts";

/** An answer; status 0 when there was none. */
export type Answer = { status: number; body: unknown };

/** How a request is sent, and which refusals it may have: those that are `wanted`, and others that are documented. */
type How = { token?: string; headers?: { [name: string]: string }; wanted?: number[]; allowed?: number[] };

const DEADLINE_MS = 35_000;
/** How long the outcome of a keyed change may be unknown: longer than any fault and the pause after it. */
const OUTCOME_MS = 180_000;
/** No process listens, or it says so: an immediate retry would show nothing new. */
const UNAVAILABLE_MS = 200;
const EXPECTED = new Set([0, 200, 201, 202, 204, 404, 409, 503]);

/** A rollback may be requested at the moment when its version leaves the plan's history. */
const isQuota = ({ status, body }: Answer) =>
  status === 403 && (body as { error: { code: string } }).error.code === "quota_exceeded";

const isUnderWay = ({ status, body }: Answer) =>
  status === 409 && /still under way/.test(JSON.stringify(body));

export const isUnknown = ({ status }: Answer) => status === 0 || status >= 500;

export type Client = ReturnType<typeof createClient>;

export function createClient(at: { baseUrl: string; token: string }, name: string, record: Record) {
  let requests = 0;

  async function once(method: string, path: string, body: unknown, { token, headers }: How): Promise<Answer> {
    const url = path.startsWith("http") ? path : at.baseUrl + path;
    const raw = body instanceof Uint8Array;
    const bearer = token ?? (path.startsWith("http") ? "" : at.token);
    try {
      const answer = await fetch(url, {
        method,
        headers: {
          ...(bearer && { authorization: `Bearer ${bearer}` }),
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

  async function send(method: string, path: string, body?: unknown, how: How = {}) {
    const id = how.headers?.["x-request-id"] ?? `${name}-${requests++}`;
    const from = Date.now();
    const answer = await once(method, path, body, {
      ...how,
      headers: { "x-request-id": id, ...how.headers },
    });
    const { status } = answer;
    const wanted = (status >= 200 && status < 300) || (how.wanted?.includes(status) ?? false);
    const what = `${method} ${path} (${id}): ${status}`;
    // A gateway that was killed leaves its keys leased for a minute, which is not the fault of what is there now.
    if (!isUnderWay(answer)) record.sent.push({ from, to: Date.now(), wanted, what });
    record.statuses.set(status, (record.statuses.get(status) ?? 0) + 1);
    if (status === 0 || status === 503) await delay(UNAVAILABLE_MS);
    if (!wanted && !EXPECTED.has(status) && !how.allowed?.includes(status) && !isQuota(answer))
      record.wrong.push(`${what} ${JSON.stringify(answer.body)}`);
    return { ...answer, id };
  }

  return {
    name,
    send,
    wrong: (what: string) => void record.wrong.push(what),

    /** A write without a key: it is acknowledged, refused, or its outcome is unknown. */
    async write(method: string, path: string, body?: unknown, how: How = {}): Promise<Answer> {
      const { id, ...answer } = await send(method, path, body, how);
      const outcome = isUnknown(answer) ? "unknown" : answer.status >= 400 ? "refused" : "acknowledged";
      record[outcome].push(id);
      return answer;
    },

    /** A change that may be asked for repeatedly, as one whose answer was lost: until its outcome is known. */
    async repeat(method: string, path: string): Promise<void> {
      const ids: string[] = [];
      for (;;) {
        const answer = await send(method, path);
        ids.push(answer.id);
        if (!isUnknown(answer)) break;
        await delay(500);
      }
      record.repeated.push(ids);
    },

    /**
     * A POST under one Idempotency-Key, tried until its outcome is known, and sometimes once more after that. Returns
     * undefined when it was refused.
     */
    async effect<Made extends { id: string }>(
      { action, service, audited = true }: Partial<Effect> & { action: string },
      what: string,
      path: string,
      body: unknown,
      random: Random,
      how: How = {},
    ): Promise<Made | undefined> {
      const key = `${name}-${what}`;
      const ids: string[] = [];
      const attempt = () => {
        const id = `${key}-${ids.length}`;
        ids.push(id);
        const headers = { "idempotency-key": key, "x-request-id": id };
        return send("POST", path, body, { ...how, headers });
      };
      const deadline = Date.now() + OUTCOME_MS;
      for (;;) {
        const answer = await attempt();
        const { status, body: made } = answer;
        const underWay = isUnderWay(answer);
        if (!isUnknown(answer) && !underWay) {
          if (status >= 400) {
            if (ids.length > 1 && status === 409)
              record.wrong.push(`${key}: refused at a retry: ${JSON.stringify(made)}`);
            return undefined;
          }
          const { id } = made as Made;
          record.effects.push({ action, name: what, id, ids, service, audited });
          if (random.next() < 0.2) await expectSame(key, made, attempt);
          return made as Made;
        }
        if (Date.now() > deadline) {
          const last = `${status} ${JSON.stringify(made)}`;
          record.wrong.push(`${key}: no outcome within ${OUTCOME_MS / 1000} s, last ${last}`);
          return undefined;
        }
        // `Retry-After` of what is under way is a second.
        await delay(underWay ? 1_000 : random.between(100, 800));
      }
    },
  };

  /** A gateway that could not store a response keeps the key claimed for a while, and the service's answer counts then. */
  async function expectSame(key: string, made: unknown, attempt: () => Promise<Answer>): Promise<void> {
    const deadline = Date.now() + OUTCOME_MS;
    let second = await attempt();
    for (; isUnderWay(second) && Date.now() < deadline; second = await attempt()) await delay(1_000);
    if (isUnknown(second) || JSON.stringify(second.body) === JSON.stringify(made)) return;
    const [first, again] = [JSON.stringify(made), JSON.stringify(second.body)];
    record.wrong.push(`${key}: ${first}, and at a retry ${again}`);
  }
}
