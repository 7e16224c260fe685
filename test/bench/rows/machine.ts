import { setTimeout } from "node:timers/promises";
import { openDoor } from "../../support/door.ts";
import { connectApp } from "../../support/oauth/application.ts";
import { load } from "../load.ts";
import { type Bench, median } from "../row.ts";

const ROUNDS = 5;
const MS = 2_000;
const CONNECTIONS = 16;
const REVOCATIONS = 5;

/**
 * The time of a request with a machine token, compared with one that carries a user's, alternating; and how long a
 * gateway still lets a machine in whose grant ended elsewhere: at the provider, of which only an event tells it.
 */
export const machine: Bench = {
  names: ["machine-token", "grant-revocation"],
  run: async (platform) => {
    const door = await openDoor(platform.origin, platform.ownerToken);
    const consent = { accountId: door.accountId, role: "editor" } as const;
    const connect = () => connectApp(door, consent);
    const path = `${new URL(door.baseUrl).pathname}${door.A}`;
    const requests = async (token: string, ms = MS) => {
      const headers = { authorization: `Bearer ${token}` };
      const { perSecond, statuses } = await load({
        origin: door.origin,
        ...{ path, headers, connections: CONNECTIONS, ms },
      });
      if (Object.keys(statuses).join() !== "200") throw new Error(`answers were ${JSON.stringify(statuses)}`);
      return perSecond;
    };
    const { accessToken } = await connect();
    for (const token of [platform.ownerToken, accessToken]) await requests(token, 1_500);
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const user = await requests(platform.ownerToken);
      times.push(user / (await requests(accessToken)));
    }
    const waits: number[] = [];
    for (let round = 0; round < REVOCATIONS; round++) {
      const app = await connect();
      const status = async () =>
        (await door.call("GET", door.A, undefined, { token: app.accessToken })).status;
      if ((await status()) !== 200) throw new Error("a machine was not let in");
      await app.revoke();
      const ended = performance.now();
      while ((await status()) !== 401) await setTimeout(1);
      waits.push(performance.now() - ended);
    }
    return [
      { name: "machine-token", value: median(times), unit: "x user token", goal: "<= 1.15" },
      { name: "grant-revocation", value: Math.max(...waits), unit: "ms", goal: "<= 1000" },
    ];
  },
};
