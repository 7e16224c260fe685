import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { openDoor } from "./door.ts";
import { createPullLogins } from "./logins.ts";

export const [A, B] = ["acc_1", "acc_2"] as const;
export const DIGEST = `sha256:${"a".repeat(64)}`;
const NODES_PASSWORD = randomBytes(16).toString("hex");

export type TestDoor = Awaited<ReturnType<typeof startDoor>>;

/** Starts a door before a registry that answers as `listener` does; `asked` has what reached it. */
export async function startDoor(
  listener: RequestListener = (_, response) => response.end("an image"),
  limits: Parameters<typeof openDoor>[0]["limits"] = {},
) {
  const asked: IncomingMessage[] = [];
  const registry = createServer((asking, response) => {
    asked.push(asking);
    listener(asking, response);
  });
  await once(registry.listen(0, "127.0.0.1"), "listening");
  const warnings: unknown[] = [];
  const log = { warn: (...given: unknown[]) => warnings.push(given) } as never;
  const keys = [randomBytes(32), randomBytes(32)];
  const registryPort = (registry.address() as AddressInfo).port;
  const place = { host: "127.0.0.1", port: 0, registryPort };
  const door = await openDoor({ ...place, keys, nodesPassword: NODES_PASSWORD, log, limits });

  /** Returns the `Authorization` of a user: `nodes`, or an account. */
  const loginOf = (user: string, by = keys) =>
    user === "nodes"
      ? basic(user, NODES_PASSWORD)
      : `Basic ${JSON.parse(createPullLogins(by).configFor("h", user)).auths.h.auth}`;

  /** Sends a request whose target is not changed, as `fetch` would. */
  const open = async (
    path: string,
    user?: string,
    { method = "GET", ...headers }: Record<string, string> = {},
  ) => {
    const authorization = user === undefined ? undefined : loginOf(user);
    const sent = request({
      ...{ host: "127.0.0.1", port: door.port, path, method, agent: false },
      headers: { ...(authorization && { authorization }), ...headers },
    }).end();
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    return answer;
  };
  return {
    ...{ port: door.port, asked, warnings, keys, loginOf, open, stop: door.stop },
    /** Returns status, body and headers. */
    async ask(...given: Parameters<typeof open>) {
      const answer = await open(...given);
      return { status: answer.statusCode, headers: answer.headers, text: (await buffer(answer)).toString() };
    },
    /** Writes bytes, and returns all that came back when the connection is closed. */
    async send(bytes: string): Promise<string> {
      const socket = connect(door.port, "127.0.0.1");
      socket.write(bytes);
      return (await buffer(socket)).toString();
    },
    async endRegistry(): Promise<void> {
      registry.closeAllConnections();
      if (registry.listening) await new Promise((done) => registry.close(done));
    },
    async close(): Promise<void> {
      await this.endRegistry();
      await door.stop();
    },
  };
}

export const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
