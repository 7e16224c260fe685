import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { canMount, emptyDisk, fillDisk } from "../../services/kit/testing/small-disk.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Launched, launch, processOf } from "../support/launched.ts";

const MIB = 1024 ** 2;
/** For what waits for retries whose pauses double while the disk is full. */
const PATIENCE = 60_000;

const withMount = test.skipIf(!canMount("Stories of a full disk are"));

let platform: Launched;
let disk: string;
afterEach(async () => {
  await platform?.stop();
});

const programs = ["gateway", "services/identity", "services/variables", "services/deployer"];
const pids = () => Promise.all(programs.map((name) => processOf(platform.pid, `${name}/main.ts`)));

/** Makes a customer at the simulator of payments; returns its id. */
async function newCustomer(): Promise<string> {
  const answer = await fetch(`${platform.checkoutUrl}v1/customers`, {
    method: "POST",
    headers: { authorization: "Bearer sk_test_simulator" },
  });
  return ((await answer.json()) as { id: string }).id;
}

async function project() {
  const A = `/accounts/${platform.accountId}`;
  const { body } = await platform.request("POST", `${A}/projects`, { name: "full" });
  const P = `${A}/projects/${(body as { id: string }).id}`;
  const written: string[] = [];
  let n = 0;
  return {
    P,
    /** Writes a variable of this size; returns the status. */
    async write(bytes: number): Promise<number> {
      const name = `V${n++}`;
      const { status } = await platform.request("POST", `${P}/variables`, { name, value: "x".repeat(bytes) });
      if (status === 200) written.push(name);
      return status;
    },
    /** Waits until every acknowledged write is in the audit log, once: events flow, and none was lost. */
    audited: () =>
      eventually(
        "acknowledged writes are in the audit log, once",
        async () => {
          const targets: string[] = [];
          let cursor = "";
          do {
            const query = `limit=100&action=variable.create&cursor=${encodeURIComponent(cursor)}`;
            const { body } = await platform.requestUntilAnswered("GET", `${A}/audit-events?${query}`);
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
    // Every request writes a line to a log, for which the disk has no room.
    platform = await launch({ disk: { at: "", bytes: 320 * MIB }, env: { LOG_LEVEL: "debug" } });
    disk = join(`/proc/${platform.child.pid}/root`, platform.data);
    const { P, write, audited } = await project();
    expect(await write(1)).toBe(200);
    const before = await pids();
    const statuses = new Set<number>();
    const customers: string[] = [];
    // Small values fit into pages that exist already; large ones need new ones.
    for (let round = 0; round < 100 || !statuses.has(503); round++) {
      fillDisk(disk);
      statuses.add(await write(round % 2 === 0 ? 10 : 60 * 1024));
      // The simulator tells billing of it, and has no room to write down that it did.
      customers.push(await newCustomer());
      await eventually("a variable is read", async () => {
        const { status } = await platform.request("GET", `${P}/variables/V0`);
        statuses.add(status);
        return status === 200;
      });
    }
    expect([...statuses].toSorted()).toEqual([200, 503]);
    emptyDisk(disk);
    await eventually("writes are taken again", async () => (await write(1)) === 200, PATIENCE);
    await audited();
    await eventually("the simulator of payments has written down what it was told", async () => {
      const kept = await readFile(join(disk, "stripe", "stripe.json"), "utf8");
      return customers.every((id) => kept.includes(id));
    });
    expect(await pids()).toEqual(before);
  },
  4 * PATIENCE,
);

withMount(
  "events flow again by themselves after the disk of NATS was full",
  async () => {
    platform = await launch({ disk: { at: "nats", bytes: 48 * MIB } });
    disk = join(`/proc/${platform.child.pid}/root`, platform.data, "nats");
    const { write, audited } = await project();
    expect(await write(1)).toBe(200);
    await audited();
    fillDisk(disk);
    for (let n = 0; n < 300; n++) expect(await write(1)).toBe(200);
    await eventually("NATS refuses", async () => {
      const log = await readFile(join(platform.data, "logs", "nats.log"), "utf8");
      return log.includes("no space left on device");
    });
    emptyDisk(disk);
    await audited();
  },
  4 * PATIENCE,
);
