import { createSocket } from "node:dgram";
import { type Answer, decode, encode, type Packet } from "dns-packet";

type Records = Partial<Record<"A" | "AAAA" | "CNAME" | "TXT", string[]>>;

/** Starts a DNS server on this machine that knows what it is told: all other names do not exist. */
export async function startDns() {
  const zone = new Map<string, Records>();
  let asked = 0;
  let silent = false;
  const socket = createSocket("udp4");
  socket.on("message", (message, { port, address }) => {
    asked++;
    if (silent) return;
    const query = decode(message);
    const { name = "", type = "" } = query.questions?.[0] ?? {};
    const records = zone.get(name.toLowerCase());
    const values = records?.[type as keyof Records] ?? [];
    const answers = values.map((data) => ({ type, name, ttl: 60, data }) as Answer);
    const rcode = records ? 0 : 3;
    const answer: Packet = {
      ...{ type: "response", id: query.id, questions: query.questions, answers },
      // Recursion was asked for, and is there; the last four bits say that the name does not exist.
      flags: 0x0180 | rcode,
    };
    socket.send(encode(answer), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return {
    server: `127.0.0.1:${socket.address().port}`,
    set: (name: string, records: Records) => void zone.set(name, records),
    clear: (name: string) => void zone.delete(name),
    /** From now on no question is answered, or again each. */
    silence: (now: boolean) => {
      silent = now;
    },
    asked: () => asked,
    stop: () => new Promise<void>((resolve) => socket.close(resolve)),
  };
}

export type TestDns = Awaited<ReturnType<typeof startDns>>;
