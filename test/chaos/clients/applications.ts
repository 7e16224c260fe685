import { setTimeout as delay } from "node:timers/promises";
import { connectApp } from "../../support/oauth/application.ts";
import type { Client } from "./client.ts";
import type { App, Record } from "./record.ts";
import { expectRefused } from "./refused.ts";
import type { Shared, Work } from "./shared.ts";

type Connected = Awaited<ReturnType<typeof connectApp>>;

/** Lets an application in, which reads and refreshes its token, and ends its access: by the user or by itself. */
export const applications =
  (record: Record): Work =>
  async (client, shared, random, round) => {
    const app = await connect(client, shared, `${client.name} ${round}`);
    if (!app) return;
    const known: App = {
      clientId: app.clientId,
      accessToken: app.accessToken,
      refreshToken: app.refreshToken,
    };
    const use = () =>
      client.send("GET", `${shared.account}/projects`, undefined, {
        token: known.accessToken,
        allowed: [401],
      });
    await use();
    if (random.next() < 0.5) {
      const next = await app.refresh(known.refreshToken).catch(() => undefined);
      // Whether its refresh token is still good is not known, and a second try would look like a thief's.
      if (!next) return;
      Object.assign(known, next);
    }
    await use();
    if (random.next() < 0.7) await client.repeat("DELETE", `/me/mcp-grants/${known.clientId}`);
    else if (!(await endByItself(app, known))) return;
    known.ended = Date.now();
    record.apps.push(known);
    const what = `a token of ${known.clientId}, whose access was ended,`;
    await expectRefused(client, shared, { token: known.accessToken, ended: known.ended, what, status: 401 });
  };

/** Lets an application in. Returns undefined when a step of it failed. */
async function connect(client: Client, { origin, accountId }: Shared, name: string) {
  const call = async (method: string, path: string, body?: unknown, how: { token?: string } = {}) => {
    // A step that is asked for again after its answer was lost is refused.
    const { status, body: answer } = await client.send(method, path, body, { ...how, allowed: [400, 410] });
    return { status, body: (answer ?? {}) as object };
  };
  return connectApp({ origin, call }, { accountId, role: "editor", name }).catch(() => undefined);
}

async function endByItself(app: Connected, { refreshToken }: App): Promise<boolean> {
  for (let tries = 0; tries < 20; tries++) {
    const answer = await app.revoke(refreshToken).catch(() => undefined);
    if (answer?.status === 200) return true;
    await delay(500);
  }
  return false;
}
