import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { createWebSocketStream, WebSocket } from "ws";
import { createPostgresPrograms } from "../../../services/deployer/addons/local/postgres/programs.ts";
import { retry } from "../../../services/kit/concurrency/retry.ts";
import { createLog } from "../../../services/kit/log.ts";
import { programsDir } from "../../../services/kit/process/program.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, quietest } from "../row.ts";
import { scratchDatabase, settle, superuser } from "../scratch.ts";

/** About 1 GiB of rows that do not compress to nothing. */
const ROWS = 8_000_000;

type Copy = { status: string; startedAt: string; finishedAt?: string };

/**
 * A backup of a database of 1 GiB, its restore and a fork with it, compared with pg_dump and pg_restore by hand; and what a
 * dump through a tunnel takes, compared with one of the server itself.
 */
export const backups: Bench = {
  names: ["addon-backup", "addon-restore", "addon-fork", "addon-tunnel"],
  run: async (platform) => {
    const log = createLog("bench", "silent");
    const programs = createPostgresPrograms({
      folder: programsDir,
      path: () => process.env.PATH,
      log,
    });
    const { E } = await newEnvironment(platform, "backups");
    const S = `${E}/services/store`;
    await platform.call("POST", `${E}/services`, { name: "store", type: "postgres" });
    const url = await urlOf(platform, E);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query("select current_setting('server_version_num')::int / 10000 as major");
    await client.query(
      `create table notes as select n, md5(n::text) || md5((n + 1)::text) as text from generate_series(1, ${ROWS}) n`,
    );
    await client.query("alter table notes add primary key (n)");
    await client.end();
    const { dump, restore } = await programs.require(Number(rows[0].major));
    const file = join(platform.dir, "by-hand.dump");
    const scratch = await scratchDatabase(platform);
    const databases = [(await superuser(platform))(new URL(url).pathname.slice(1)), scratch.url];
    try {
      const [dumped = 0, restored = 0, ours = 0, theirs = 0, forked = 0] = await quietest(async () => {
        await settleAll(databases);
        const byHand = await took(dump, ["--format=custom", `--file=${file}`, `--dbname=${url}`]);
        const backup = await platform.call<{ id: string }>("POST", `${S}/backups`);
        const made = await ended(() => platform.call<Copy>("GET", `${S}/backups/${backup.id}`));
        const again = ["--clean", "--if-exists", "--no-owner", `--dbname=${scratch.url}`, file];
        const readByHand = await took(restore, again);
        await settleAll(databases);
        await platform.call("POST", `${S}/restore`, { backup: backup.id, confirmImpact: true });
        const read = await ended(
          async () => (await platform.call<{ backups: { restore: Copy } }>("GET", S)).backups.restore,
        );
        await settleAll(databases);
        const filled = await fork(platform, E);
        return [byHand, readByHand, made, read, filled];
      });
      const [direct = 0, tunneled = 0] = await quietest(async () => {
        const plain = ["--format=custom", "--compress=0", `--file=${file}`];
        const through = await openTunnel(platform, S, url);
        try {
          return [
            await took(dump, [...plain, `--dbname=${url}`]),
            await took(dump, [...plain, `--dbname=${through.url}`]),
          ];
        } finally {
          through.close();
        }
      });
      const detail = (own: number, hand: number) => `${own.toFixed(1)} s, by hand ${hand.toFixed(1)} s`;
      return [
        {
          name: "addon-backup",
          value: ours / dumped,
          unit: "x pg_dump",
          goal: "<= 1.2",
          detail: detail(ours, dumped),
        },
        {
          ...{ name: "addon-restore", value: theirs / restored, unit: "x pg_restore", goal: "<= 1.2" },
          detail: detail(theirs, restored),
        },
        {
          ...{ name: "addon-fork", value: forked / restored, unit: "x pg_restore", goal: "<= 1.2" },
          detail: detail(forked, restored),
        },
        {
          ...{ name: "addon-tunnel", value: tunneled / direct, unit: "x direct", goal: "<= 3" },
          detail: `${tunneled.toFixed(1)} s, direct ${direct.toFixed(1)} s`,
        },
      ];
    } finally {
      await Promise.all([scratch.drop(), rm(file, { force: true })]);
    }
  },
};

/** Forks the addon with its newest backup, and deletes the fork; returns how long it took to be filled (s). */
async function fork(platform: Platform, E: string): Promise<number> {
  const { id } = await platform.call<{ id: string }>("GET", `${E}/services/store`);
  const name = `fork-${randomBytes(3).toString("hex")}`;
  await platform.call("POST", `${E}/services`, { name, type: "postgres", from: { service: id } });
  const filled = await ended(async () => {
    const { backups } = await platform.call<{ backups: { restore: Copy } }>("GET", `${E}/services/${name}`);
    return backups.restore;
  });
  await platform.call("DELETE", `${E}/services/${name}`, { confirmImpact: true });
  return filled;
}

/** Opens a port whose connections go through a tunnel, as `berth addons connect --port` does. */
async function openTunnel(platform: Platform, S: string, url: string) {
  const { path } = await platform.call<{ path: string }>("POST", `${S}/tunnel`);
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    const tunnel = new WebSocket(new URL(path, platform.origin.replace(/^http/, "ws")));
    const stream = createWebSocketStream(tunnel);
    pipeline(socket, stream, socket).catch(() => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href,
    close: () => server.close(),
  };
}

async function urlOf(platform: Platform, E: string): Promise<string> {
  const connection = { service: "store", key: "URL" };
  await platform.call("POST", `${E}/variables`, { name: "STORE", connection });
  const reveal = () => platform.call<{ value: string }>("POST", `${E}/variables/STORE/reveal`);
  return (await retry(reveal, { everyMs: 200, forMs: 60_000 })).value;
}

async function settleAll(urls: string[]): Promise<void> {
  for (const connectionString of urls) {
    const client = new pg.Client({ connectionString });
    await client.connect();
    await settle(client);
    await client.end();
  }
}

async function took(program: string, args: string[]): Promise<number> {
  const begun = performance.now();
  const [code] = await once(spawn(program, args, { stdio: "ignore" }), "exit");
  if (code !== 0) throw new Error(`${program} exited with ${code}`);
  return (performance.now() - begun) / 1_000;
}

/** Returns how long (s) a backup or a restore took, by its own times. */
async function ended(read: () => Promise<Copy>): Promise<number> {
  for (;;) {
    const { status, startedAt, finishedAt } = await read();
    if (status === "failed") throw new Error("a copy failed");
    if (finishedAt) return (Date.parse(finishedAt) - Date.parse(startedAt)) / 1_000;
    await new Promise((next) => setTimeout(next, 200));
  }
}
