import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { eventually } from "../services/kit/testing.ts";
import { type Launched, launch, onSmallDisk, processOf } from "./launched.ts";

const MIB = 1024 ** 2;
/** For what waits for pauses that double while the disk is full. */
const PATIENCE = 60_000;

/** Whether a small disk of the test's own can be had here. */
function canMount(): boolean {
  const place = mkdtempSync(join(tmpdir(), "berth-mount-"));
  const [program, ...args] = [...onSmallDisk(place, MIB), "true"];
  const { status } = spawnSync(program!, args);
  rmSync(place, { recursive: true });
  return status === 0;
}
const withMount = test.skipIf(!canMount());
if (!canMount()) console.warn("Full disks are skipped: no file system can be mounted here.");

let platform: Launched;
let ballast: string;
afterEach(async () => {
  await platform?.stop();
});

/** Takes all room there is on the small disk. */
function fill(): void {
  const file = openSync(ballast, "a");
  try {
    for (const size of [MIB, 4096, 1]) takeAll(file, Buffer.alloc(size));
  } finally {
    closeSync(file);
  }
}

function takeAll(file: number, part: Buffer): void {
  try {
    for (;;) writeSync(file, part);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}

const programs = ["gateway", "services/identity", "services/variables", "services/deployer"];
const pids = () => Promise.all(programs.map((name) => processOf(platform.pid, `${name}/main.ts`)));

async function project() {
  const A = `/accounts/${platform.accountId}`;
  const { body } = await platform.request("POST", `${A}/projects`, { name: "full" });
  const P = `${A}/projects/${(body as { id: string }).id}`;
  const written: string[] = [];
  let n = 0;
  return {
    P,
    /** Writes a variable of so many bytes; the answer's status. */
    async write(bytes: number): Promise<number> {
      const name = `V${n++}`;
      const { status } = await platform.request("POST", `${P}/variables`, { name, value: "x".repeat(bytes) });
      if (status === 200) written.push(name);
      return status;
    },
    /** Until every write that was acknowledged is in the audit log, once: events flow, and none was lost. */
    audited: () =>
      eventually(
        "acknowledged writes are in the audit log, once",
        async () => {
          const targets: string[] = [];
          let cursor = "";
          do {
            const query = `limit=100&action=variable.create&cursor=${encodeURIComponent(cursor)}`;
            const { body } = await platform.patiently("GET", `${A}/audit-events?${query}`);
            const page = body as { data: { target: string }[]; page: { nextCursor: string } };
            targets.push(...page.data.map(({ target }) => target));
            cursor = page.page.nextCursor;
          } while (cursor !== "");
          return written.every((name) => targets.includes(name)) && new Set(targets).size === targets.length;
        },
        PATIENCE,
      ),
  };
}

withMount(
  "a full disk ends no process; reads go on, writes are taken or 503, and no event is lost",
  async () => {
    // Every request is a line in a log, which the disk has no room for.
    platform = await launch({ disk: { at: "", bytes: 320 * MIB }, env: { LOG_LEVEL: "debug" } });
    ballast = join(`/proc/${platform.child.pid}/root`, platform.data, "ballast");
    const { P, write, audited } = await project();
    expect(await write(1)).toBe(200);
    const before = await pids();
    const statuses = new Set<number>();
    // Small ones find room that is there already; large ones need more.
    for (let round = 0; round < 100 || !statuses.has(503); round++) {
      fill();
      statuses.add(await write(round % 2 === 0 ? 10 : 60 * 1024));
      await eventually("a variable is read", async () => {
        const { status } = await platform.request("GET", `${P}/variables/V0`);
        statuses.add(status);
        return status === 200;
      });
    }
    expect([...statuses].toSorted()).toEqual([200, 503]);
    rmSync(ballast);
    await eventually("writes are taken again", async () => (await write(1)) === 200, PATIENCE);
    await audited();
    expect(await pids()).toEqual(before);
  },
  4 * PATIENCE,
);

withMount(
  "events flow again by themselves after the disk of NATS was full",
  async () => {
    platform = await launch({ disk: { at: "nats", bytes: 48 * MIB } });
    ballast = join(`/proc/${platform.child.pid}/root`, platform.data, "nats", "ballast");
    const { write, audited } = await project();
    expect(await write(1)).toBe(200);
    await audited();
    fill();
    for (let n = 0; n < 300; n++) expect(await write(1)).toBe(200);
    await eventually("NATS refuses", async () => {
      const log = await readFile(join(platform.data, "logs", "nats.log"), "utf8");
      return log.includes("no space left on device");
    });
    rmSync(ballast);
    await audited();
  },
  4 * PATIENCE,
);
