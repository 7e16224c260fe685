import { createHash } from "node:crypto";
import { isIPv6 } from "node:net";

/** The key under which failures of an e-mail from an address are counted; it holds neither in the clear. */
export function attemptKey(email: string, ip: string): Buffer {
  return createHash("sha256")
    .update(`${email}\n${network(ip)}`)
    .digest();
}

/** The key under which something of one subject is counted: `windowKey("inviter", userId)`. */
export function windowKey(what: string, subject: string): Buffer {
  return createHash("sha256").update(`${what}\n${subject}\n`).digest();
}

/** An IPv4 address as it is; of an IPv6 address its /64, all of which one household or server has. */
export function network(ip: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip);
  if (mapped) return mapped[1]!;
  if (!isIPv6(ip)) return ip;
  const [head = "", tail] = ip.split("%")[0]!.toLowerCase().split("::");
  const left = head.split(":").filter(Boolean);
  const right = tail?.split(":").filter(Boolean) ?? [];
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length;
  const groups = [...left, ...Array<string>(Math.max(zeros, 0)).fill("0"), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}

/** Runs work of the same key one after the other, and work of different keys side by side. */
export function createTurns() {
  const last = new Map<string, Promise<unknown>>();
  return async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const turn = (last.get(key) ?? Promise.resolve()).then(work, work);
    last.set(key, turn);
    try {
      return await turn;
    } finally {
      if (last.get(key) === turn) last.delete(key);
    }
  };
}
