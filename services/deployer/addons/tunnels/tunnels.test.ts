import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { createLog } from "../../../kit/log.ts";
import { createPool } from "../../../kit/postgres/db.ts";
import { createSecrets } from "../../secrets.ts";
import { sealTicket } from "./ticket.ts";
import { createTunnels } from "./tunnels.ts";

const secrets = createSecrets([Buffer.alloc(32, 1)]);

/** Serves tunnels without a database: what is refused before it is asked. Returns how a path is answered. */
async function serveTunnels() {
  const log = createLog("deployer", "silent");
  const pool = createPool("postgres://127.0.0.1:1/none");
  const address = () => ({ host: "127.0.0.1", port: 1 });
  const { takes, take } = createTunnels({ pool, secrets, servers: { address }, log });
  const server = createServer({ shouldUpgradeCallback: takes }).on("upgrade", take);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return async (path: string) => {
    const client = new WebSocket(`ws://127.0.0.1:${port}${path}`);
    client.on("error", () => {});
    const [, answer] = (await once(client, "unexpected-response")) as [unknown, IncomingMessage];
    let text = "";
    for await (const chunk of answer) text += chunk;
    return [answer.statusCode, JSON.parse(text).error.message];
  };
}

test("a path is valid for five minutes, and only with the keys that sealed it", async () => {
  const answerAt = await serveTunnels();
  const minutesAgo = (minutes: number) => Date.now() - minutes * 60_000;
  const expired = [403, "This tunnel has expired; request a new one."];
  expect(await answerAt(sealTicket(secrets, "svc_1", "password", minutesAgo(6)).path)).toEqual(expired);
  // One that is valid gets as far as the database, which is not there.
  expect((await answerAt(sealTicket(secrets, "svc_1", "password", minutesAgo(4)).path))[0]).toBe(503);
  const others = createSecrets([Buffer.alloc(32, 2)]);
  const foreign = [403, "This is not the path of a tunnel."];
  expect(await answerAt(sealTicket(others, "svc_1", "password", Date.now()).path)).toEqual(foreign);
});
