import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { familyOf } from "../../support/processes.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, type Figure, median } from "../row.ts";
import { superuser } from "../scratch.ts";

/** So many streams of so many services are open at one gateway, half of them of their environment. */
const STREAMS = 5_000;
const SERVICES = 50;
const OPENED_AT_ONCE = 50;
const PER_SECOND = 200;
const SECONDS = 10;
/** Changes of the first second only warm up. */
const COUNT = PER_SECOND * (1 + SECONDS);
/** What opening the streams leaves to be collected is not theirs. */
const SETTLE_MS = 20_000;
/** A client that was away for so many changes. */
const MISSED = 10_000;

/**
 * From a committed change to the commit event at a client, at a steady 200 changes a second while 5 000 streams are open
 * at one gateway; what each of them takes there; and the events that 10 000 changes cost a client that was away.
 */
export const streams: Bench = {
  names: ["stream-change-to-client-p99", "stream-memory", "stream-catch-up"],
  run: async (platform) => {
    const { E } = await newEnvironment(platform, "streams");
    const ids: string[] = [];
    for (let n = 0; n < SERVICES; n++)
      ids.push(
        (await platform.call<{ id: string }>("POST", `${E}/services`, { name: `s${n}`, type: "web" })).id,
      );
    const paths = ids.map((_, n) => `${E}/services/s${n}/resolved-variables`);
    for (let n = 0; n < SERVICES; n++)
      await platform.call("POST", `${E}/services/s${n}/variables`, { name: "A", value: "1" });
    const gateway = await pidOf(platform, "gateway");
    // The first ones compile code and open connections.
    for (let n = 0; n < 200; n++) (await open(platform, paths[n % SERVICES]!)).socket.destroy();
    const before = await residentKiB(gateway);
    const idle: Socket[] = [];
    const pathOf = (n: number) => (n % 2 === 0 ? paths[(n / 2) % SERVICES]! : `${E}/events`);
    for (let n = 0; n < STREAMS; n += OPENED_AT_ONCE) {
      const opened = Array.from({ length: OPENED_AT_ONCE }, (_, i) => open(platform, pathOf(n + i)));
      idle.push(...(await Promise.all(opened)).map(({ socket }) => socket));
    }
    await setTimeout(SETTLE_MS);
    const memory = ((await residentKiB(gateway)) - before) / STREAMS;
    for (const socket of idle.slice(SERVICES * 2)) socket.destroy();
    const client = new pg.Client({
      connectionString: `${(await superuser(platform))("berth")}?options=-c%20search_path%3Dvariables`,
    });
    await client.connect();
    try {
      const taken = await changesToClients(platform, client, ids, paths);
      const frames = await catchUp(platform, client, ids[0]!, paths[0]!);
      return [
        ...latency(taken),
        memoryRow(memory),
        {
          name: "stream-catch-up",
          value: frames,
          unit: "frames",
          goal: "<= 1",
          detail: `${MISSED} changes missed`,
        },
      ];
    } finally {
      for (const socket of idle) socket.destroy();
      await client.end();
    }
  },
};

function memoryRow(value: number): Figure {
  return {
    name: "stream-memory",
    value,
    unit: "KiB in the gateway",
    goal: "<= 40",
    detail: `${STREAMS} streams`,
  };
}

function latency(taken: number[]): Figure[] {
  const at = (part: number) => taken[Math.floor((taken.length - 1) * part)]!;
  const detail = `median ${median(taken).toFixed(1)} ms, p90 ${at(0.9).toFixed(1)} ms, most ${at(1).toFixed(1)} ms`;
  return [{ name: "stream-change-to-client-p99", value: at(0.99), unit: "ms", goal: "<= 50", detail }];
}

type Stream = { socket: Socket; frames: number; lastId: string };

/** Opens a stream and waits for its first commit; `onCommit` is called with the id of each later one. */
function open(platform: Platform, path: string, onCommit: (id: string) => void = () => {}, lastEventId = "") {
  const { port, hostname, host } = new URL(platform.origin);
  const fields = { host, authorization: `Bearer ${platform.ownerToken}`, accept: "text/event-stream" };
  const all = lastEventId ? { ...fields, "last-event-id": lastEventId } : fields;
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return new Promise<Stream>((resolve, reject) => {
    const socket = connect(Number(port), hostname).setNoDelay();
    const stream: Stream = { socket, frames: 0, lastId: "" };
    let text = "";
    socket.write(`GET ${new URL(platform.baseUrl).pathname}${path} HTTP/1.1\r\n${head.join("")}\r\n`);
    socket.on("error", reject);
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (/^HTTP\/1.1 [^2]/.test(text)) reject(new Error(text));
      for (let end = text.indexOf("event: commit"); end >= 0; end = text.indexOf("event: commit")) {
        const id = text.slice(0, end).match(/id: (\S+)\n$/)?.[1] ?? "";
        text = text.slice(end + 1);
        stream.frames++;
        stream.lastId = id;
        if (stream.frames === 1) resolve(stream);
        else onCommit(id);
      }
    });
  });
}

/** Changes services' variables as a write does, evenly, and returns how long each took to its client, sorted. */
async function changesToClients(platform: Platform, client: pg.Client, ids: string[], paths: string[]) {
  const waiting = new Map<string, (at: number) => void>();
  const arrived = new Map<string, number>();
  const onCommit = (id: string) => {
    const at = performance.now();
    arrived.set(id, at);
    waiting.get(id)?.(at);
  };
  const followers = await Promise.all(paths.map((path) => open(platform, path, onCommit)));
  const prefixes = followers.map(({ lastId }) => lastId.slice(0, lastId.lastIndexOf("-")));
  const taken: number[] = [];
  const pending: Promise<void>[] = [];
  const started = performance.now();
  for (let n = 0; n < COUNT; n++) {
    const wait = started + (n * 1_000) / PER_SECOND - performance.now();
    if (wait > 1) await setTimeout(wait);
    const at = n % ids.length;
    const revision = await change(client, ids[at]!);
    const committed = performance.now();
    const id = `${prefixes[at]}-${revision}`;
    const arrival = arrived.get(id);
    const record = (when: number) => void (n >= PER_SECOND && taken.push(Math.max(0, when - committed)));
    if (arrival !== undefined) record(arrival);
    else pending.push(new Promise<number>((resolve) => waiting.set(id, resolve)).then(record));
  }
  await Promise.race([
    Promise.all(pending),
    setTimeout(10_000).then(() => Promise.reject(new Error("changes were not told"))),
  ]);
  for (const { socket } of followers) socket.destroy();
  return taken.sort((one, other) => one - other);
}

/** Commits what a write of a variable commits that followers see; returns the revision. */
async function change(client: pg.Client, serviceId: string): Promise<number> {
  const { rows } = await client.query<{ revision: string }>({
    name: "change",
    text: `with raised as (update scopes set revision = revision + 1 where id = $1 returning revision),
       pruned as (delete from changes c using raised r where c.scope_id = $1 and c.revision <= r.revision - 100),
       recorded as (insert into changes (scope_id, revision, names) select $1, revision, '{A}' from raised)
     select revision from raised`,
    values: [serviceId],
  });
  return Number(rows[0]!.revision);
}

/** Returns how many frames a client gets that was away for many changes. */
async function catchUp(
  platform: Platform,
  client: pg.Client,
  serviceId: string,
  path: string,
): Promise<number> {
  const { socket, lastId } = await open(platform, path);
  socket.destroy();
  for (let n = 0; n < MISSED; n++) await change(client, serviceId);
  const back = await open(platform, path, undefined, lastId);
  await setTimeout(1_000);
  back.socket.destroy();
  return back.frames;
}

async function pidOf(platform: Platform, name: string): Promise<number> {
  for (const pid of await familyOf(platform.pid)) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.includes(`${name}/main.ts`)) return pid;
  }
  throw new Error(`there is no process ${name}`);
}

async function residentKiB(pid: number): Promise<number> {
  return Number(/^Pss:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, "utf8"))![1]);
}
