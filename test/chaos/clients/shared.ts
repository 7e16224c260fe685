import type { Random } from "../../../services/kit/testing/random.ts";
import type { Mailbox } from "../../../services/kit/testing/smtp-server.ts";
import type { FaultLog } from "../faults/log.ts";
import type { Platform } from "../platform/platform.ts";
import { type Client, createClient } from "./client.ts";
import { join } from "./joining.ts";
import type { Reader, Record } from "./record.ts";

/** What the clients share: one project with registers, services that are deployed, and readers of notifications. */
export type Shared = {
  account: string;
  accountId: string;
  project: string;
  environment: string;
  registers: string[];
  webs: string[];
  readers: Reader[];
  origin: string;
  mailbox: Mailbox;
  faults: FaultLog;
};

/** What a client does in one round. */
export type Work = (client: Client, shared: Shared, random: Random, round: number) => Promise<void>;

const REGISTERS = 8;
const WEBS = 3;
const READERS = 2;

/** Creates what the clients share, before the first fault. */
export async function prepareShared(
  at: Platform,
  record: Record,
  { mailbox, faults }: { mailbox: Mailbox; faults: FaultLog },
): Promise<Shared> {
  const client = createClient(at, "setup", record);
  const { send } = client;
  const must = async <T>(method: string, path: string, body?: unknown) => {
    const { status, body: made } = await send(method, path, body);
    if (status >= 300 || status === 0)
      throw new Error(`${method} ${path}: ${status} ${JSON.stringify(made)}`);
    return made as T;
  };
  const { data } = await must<{ data: { id: string }[] }>("GET", "/accounts");
  const accountId = data[0]!.id;
  const account = `/accounts/${accountId}`;
  const made = await must<{ id: string }>("POST", `${account}/projects`, { name: "chaos" });
  const project = `${account}/projects/${made.id}`;
  const { id } = await must<{ id: string }>("POST", `${project}/environments`, { name: "production" });
  const environment = `${project}/environments/${id}`;
  const registers = Array.from({ length: REGISTERS }, (_, n) => `R${n}`);
  for (const name of registers) {
    const start = performance.now();
    await must("POST", `${project}/variables`, { name, value: "first" });
    record.history.push({ kind: "write", key: name, value: "first", start, end: performance.now() });
  }
  const webs = Array.from({ length: WEBS }, (_, n) => `web${n}`);
  for (const name of webs)
    await must("POST", `${environment}/services`, { name, type: "web", config: { minReadySeconds: 0 } });
  const readers: Reader[] = [];
  for (let n = 0; n < READERS; n++) {
    const invited = { email: `reader${n}@chaos.example`, password: `a-password-of-reader-${n}` };
    await must("POST", `${account}/members`, { email: invited.email, role: "reader" });
    const joined = await join(client, mailbox, invited);
    if (!joined?.token) throw new Error(`${invited.email} did not join`);
    readers.push({ ...joined, email: invited.email, read: new Set(), chosen: new Map() });
  }
  const { origin } = at;
  return {
    ...{ account, accountId, project, environment, registers, webs, readers },
    ...{ origin, mailbox, faults },
  };
}
