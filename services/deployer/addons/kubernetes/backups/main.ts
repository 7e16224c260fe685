import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { retry } from "../../../../kit/concurrency/retry.ts";
import { causeOf, isUnreachable } from "../../../../kit/failures.ts";
import { fetch } from "../../../../kit/network/fetch.ts";
import { readSnapshot } from "../../redis-snapshot.ts";
import {
  type ArchiveRequest,
  COPY,
  type CopyReport,
  type CopyRequest,
  type FetchRequest,
} from "./copy-request.ts";
import { sendParts } from "./send-parts.ts";

/** The program that copies data of an addon, in a container of a Job: to the object store, or from it. */

/** The other container may wait for its image. */
const OPEN_MS = 600_000;
const STATUS_MS = 30_000;
/** The network of a cluster may not know yet where a new pod is, what it may reach, or which server is the primary. */
const UNTIL_REACHED = { everyMs: 1_000, forMs: 60_000, retryIf: isUnreachable };

async function copy(request: Exclude<CopyRequest, ArchiveRequest>): Promise<CopyReport> {
  if ("fetch" in request) return fetchObject(request);
  if (request.redis) {
    const password = process.env.REDIS_PASSWORD ?? "";
    const { signal } = new AbortController();
    const { redis, send } = request;
    const { version, content } = await retry(() => readSnapshot(redis, password, signal), UNTIL_REACHED);
    return { parts: await sendParts(content, send, COPY.part), version };
  }
  const pipe = createReadStream(COPY.pipe);
  await inTime(once(pipe, "open"), "nothing writes what is to be copied");
  const parts = await sendParts(pipe, request.send, COPY.part);
  if ((await readSoon(COPY.status)) !== "0") return { problem: "the program of the database failed" };
  return { parts, version: (await readSoon(COPY.version)).split(" ")[0]! };
}

/** Waits until both ends of the pipe are open. */
async function inTime(opened: Promise<unknown>, problem: string): Promise<void> {
  const timer = setTimeout(() => end({ problem }, 1), OPEN_MS);
  await opened;
  clearTimeout(timer);
}

async function fetchObject({ fetch: url, to }: FetchRequest): Promise<CopyReport> {
  const file = createWriteStream(COPY[to], { mode: 0o600, flush: to === "volume" });
  // First: who reads from the pipe waits for it.
  await inTime(once(file, "open"), "nothing reads what is copied");
  const answer = await retry(() => fetch(url), UNTIL_REACHED);
  if (!answer.ok || !answer.body) return { problem: `the object store answers ${answer.status}` };
  await pipeline(Readable.fromWeb(answer.body as never), file);
  return { fetched: true };
}

/** Reads a file that is written at about this time. */
async function readSoon(path: string): Promise<string> {
  for (const until = Date.now() + STATUS_MS; ; await delay(100)) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.endsWith("\n")) return text.trim();
    if (Date.now() > until) return "";
  }
}

async function end(report: CopyReport, code: number): Promise<never> {
  await writeFile(COPY.report, JSON.stringify(report));
  process.exit(code);
}

try {
  const report = await copy(JSON.parse(await readFile(COPY.request, "utf8")));
  await end(report, "problem" in report ? 1 : 0);
} catch (error) {
  // What fetch throws only says in its cause why.
  const { cause } = error as Error;
  await end({ problem: `${causeOf(error)}${cause ? `: ${causeOf(cause)}` : ""}`.slice(0, 500) }, 1);
}
