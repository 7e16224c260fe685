import { setTimeout as delay } from "node:timers/promises";
import type { AddonAddress } from "../../port.ts";
import { infoOf } from "../../statistics/redis.ts";
import { ask } from "../../statistics/redis-replies.ts";

/** What a server says of its part in the replication. */
export type Replication = {
  role: "master" | "slave";
  /** It reads its data, or all data of its primary, and has none to serve meanwhile. */
  isReading: boolean;
  /** Of a standby: whether it takes what its primary writes. */
  linked: boolean;
  /** Of a standby that is not linked: for how many seconds; undefined where it has never been since it started. */
  unlinkedSeconds?: number;
};

const USER = "replication";
/** For the standby to take what was written before the primary hands over; writes wait meanwhile. */
const HAND_OVER_MS = 10_000;
const POLL_MS = 100;

/** Returns what the server at this address says. Throws where it does not answer, or does not know the secret. */
export async function readReplication(address: AddonAddress, secret: string): Promise<Replication> {
  const [, text] = await ask(address, [["AUTH", USER, secret], ["INFO"]]);
  return parseReplication(String(text));
}

/** Reads INFO; pure. */
export function parseReplication(text: string): Replication {
  const info = infoOf(text);
  const isOn = (name: string) => (info.get(name) ?? "0") !== "0";
  const role = info.get("role") === "master" ? "master" : "slave";
  const since = Number(info.get("master_link_down_since_seconds") ?? -1);
  return {
    role,
    isReading: isOn("loading") || isOn("async_loading") || isOn("master_sync_in_progress"),
    linked: role === "slave" && info.get("master_link_status") === "up",
    ...(since >= 0 && { unlinkedSeconds: since }),
  };
}

/**
 * Has a primary hand over to its standby, at `to`, once that has all that was written; returns whether it has. Otherwise it
 * stays the primary.
 */
export async function handOver(from: AddonAddress, to: AddonAddress, secret: string): Promise<boolean> {
  await command(from, secret, ["FAILOVER", "TIMEOUT", String(HAND_OVER_MS)]);
  for (const until = Date.now() + HAND_OVER_MS; Date.now() < until; await delay(POLL_MS)) {
    const { role } = await readReplication(to, secret);
    if (role === "master") return true;
  }
  return false;
}

/** Makes a standby the primary. */
export const promote = (address: AddonAddress, secret: string) =>
  command(address, secret, ["REPLICAOF", "NO", "ONE"]);

/** Makes a server the standby of another one, whose data take the place of its own. */
export const follow = (address: AddonAddress, secret: string, primary: AddonAddress) =>
  command(address, secret, ["REPLICAOF", primary.host, String(primary.port)]);

async function command(address: AddonAddress, secret: string, words: string[]): Promise<void> {
  await ask(address, [["AUTH", USER, secret], words]);
}
