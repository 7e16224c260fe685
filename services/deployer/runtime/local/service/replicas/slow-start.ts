import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { findProcessesOf } from "../../../../shared/process-tree.ts";
import { notAnswering } from "../../../status-messages.ts";
import { readAnswer } from "./health-check.ts";

/** A later look may see more than the first one: a port that was opened meanwhile. */
const LOOK_AGAIN_MS = 10_000;

/**
 * Calls `explain` with what keeps an app from being available, after `slowMs` and whenever that changes, until the
 * signal aborts. `folder` is the one by which its processes are found. Never rejects.
 */
export async function explainSlowStart(
  { port, path, folder }: { port: number; path: string | undefined; folder: string },
  slowMs: number,
  signal: AbortSignal,
  explain: (why: string) => void,
): Promise<void> {
  let said: string | undefined;
  try {
    for (let pause = slowMs; ; pause = LOOK_AGAIN_MS) {
      await delay(pause, undefined, { signal, ref: false });
      const answer = path === undefined ? undefined : await readAnswer(port, path);
      const why = notAnswering({ port, healthCheckPath: path, answer, listening: listeningPorts(folder) });
      signal.throwIfAborted();
      if (why !== said) explain(why);
      said = why;
    }
  } catch {
    // The signal aborted: the app answers, or has ended.
  }
}

/** Returns the TCP ports on which the processes of an instance listen, in order; none where the system does not say. */
export function listeningPorts(folder: string): number[] {
  const sockets = new Set(findProcessesOf(folder).flatMap(({ pid }) => socketsOf(pid)));
  const ports = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap(readListeners);
  const own = ports.filter(({ inode }) => sockets.has(inode)).map(({ port }) => port);
  return [...new Set(own)].toSorted((one, other) => one - other);
}

function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap(
      (name) => /^socket:\[(\d+)\]$/.exec(readLink(`${folder}/${name}`))?.[1] ?? [],
    );
  } catch {
    return []; // it has ended
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

const LISTEN = "0A";

function readListeners(table: string): { port: number; inode: string }[] {
  try {
    const rows = readFileSync(table, "utf8").split("\n").slice(1);
    return rows.flatMap((row) => {
      const [, local = "", , state, , , , , , inode = ""] = row.trim().split(/\s+/);
      if (state !== LISTEN) return [];
      return [{ port: Number.parseInt(local.slice(local.lastIndexOf(":") + 1), 16), inode }];
    });
  } catch {
    return [];
  }
}
