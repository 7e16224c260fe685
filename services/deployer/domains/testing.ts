import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { type Answer, decode, encode, type Packet, streamDecode, streamEncode } from "dns-packet";

type Records = Partial<Record<"A" | "AAAA" | "CNAME" | "TXT", string[]>>;

/** Starts a DNS server that knows what it is told: all other names do not exist. */
export async function startDns({ address: own = "127.0.0.1", port: ownPort = 0 } = {}) {
  const zone = new Map<string, Records>();
  let asked = 0;
  let silent = false;
  let delayMs = 0;
  function answerTo(query: Packet): Packet | undefined {
    asked++;
    if (silent) return undefined;
    const { name = "", type = "" } = query.questions?.[0] ?? {};
    const records = zone.get(name.toLowerCase());
    const values = records?.[type as keyof Records] ?? [];
    const answers = values.map((data) => ({ type, name, ttl: 60, data }) as Answer);
    const rcode = records ? 0 : 3;
    return {
      ...{ type: "response", id: query.id, questions: query.questions, answers },
      // Recursion was asked for, and is there; the last four bits say that the name does not exist.
      flags: 0x0180 | rcode,
    };
  }
  // Some ask by TCP alone. A question is small enough to arrive as a whole.
  const stream = createServer((connection) => {
    connection.on("error", () => {});
    connection.on("data", async (message) => {
      await delay(delayMs);
      const answer = answerTo(streamDecode(message));
      if (answer) connection.write(streamEncode(answer));
    });
  });
  const socket = await listenOnBoth(stream, ownPort, own);
  socket.on("message", async (message, { port, address }) => {
    await delay(delayMs);
    const answer = answerTo(decode(message));
    if (answer) socket.send(encode(answer), port, address);
  });
  return {
    server: `${own}:${socket.address().port}`,
    set: (name: string, records: Records) => void zone.set(name, records),
    clear: (name: string) => void zone.delete(name),
    /** From now on no question is answered, or again each. */
    silence: (now: boolean) => {
      silent = now;
    },
    /** From now on each answer takes so long. */
    slow: (ms: number) => {
      delayMs = ms;
    },
    asked: () => asked,
    async stop() {
      silent = true;
      stream.close();
      await new Promise<void>((resolve) => socket.close(resolve));
    },
  };
}

/** Has a server listen on a port by TCP, and returns a socket on the same one by UDP: another one, if that is taken. */
async function listenOnBoth(server: Server, port: number, address: string): Promise<Socket> {
  for (let attempt = 1; ; attempt++) {
    const socket = createSocket("udp4").bind(port, address);
    await once(socket, "listening");
    try {
      server.listen(socket.address().port, address);
      await once(server, "listening");
      return socket;
    } catch (error) {
      socket.close();
      if (port !== 0 || attempt === 20) throw error;
    }
  }
}

export type TestDns = Awaited<ReturnType<typeof startDns>>;
