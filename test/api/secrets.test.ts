import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus, STREAM } from "../../services/kit/events/bus.ts";
import { createLog } from "../../services/kit/log.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../support/apps.ts";
import { startWorld, type World } from "../support/world.ts";

const MARKER = "marker-7f3a9c-plaintext";
let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

/** Everything in the database, cell by cell, as text and as bytes. */
async function databaseText(): Promise<string> {
  const url = new URL(world.database.url("identity"));
  url.search = "";
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const { rows } = await client.query<{ table: string }>(
    "select format('%I.%I', schemaname, tablename) as table from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
  );
  const cells: string[] = [];
  for (const { table } of rows) {
    const { rows: content } = await client.query(`select * from ${table}`);
    for (const row of content)
      for (const cell of Object.values(row as object))
        cells.push(Buffer.isBuffer(cell) ? cell.toString("latin1") : JSON.stringify(cell));
  }
  await client.end();
  return cells.join("\n");
}

async function eventText(): Promise<string> {
  const bus = connectBus(world.nats.url, "test", createLog("test", "silent"));
  const { js, manager } = await bus.connected;
  const { state } = await manager.streams.info(STREAM);
  const { name } = await manager.consumers.add(STREAM, {
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.All,
    inactive_threshold: 30e9,
  });
  const consumer = await js.consumers.get(STREAM, name);
  const texts: string[] = [];
  for (let i = 0; i < state.messages; i++) {
    const message = await consumer.next({ expires: 5_000 });
    if (!message) break;
    texts.push(message.subject + Buffer.from(message.data).toString("latin1"));
  }
  await bus.close();
  expect(texts.length).toBe(state.messages);
  return texts.join("\n");
}

async function processArguments(): Promise<string> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    pids.map((pid) => readFile(join("/proc", pid, "cmdline"), "utf8").catch(() => "")),
  );
  return lines.join("\n");
}

test("the plaintext of a sensitive variable is in no list, log, event, error, audit row, table or process argument", async () => {
  const { P, E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const answers: unknown[] = [];
  const note = async (method: string, path: string, body?: unknown) =>
    answers.push(await world.call(method, path, body).then(({ status, body }) => ({ status, body })));
  await note("POST", `${P}/variables`, { name: "SECRET", value: MARKER, sensitive: true });
  await note("POST", `${P}/variables`, { name: "SECRET", value: MARKER, sensitive: true });
  await note("POST", `${P}/variables`, { name: "bad name", value: MARKER, sensitive: true });
  await note("POST", `${P}/variables`, { name: "X", value: MARKER, sensitive: true, surprise: MARKER });
  await note("POST", `${P}/variables`, { name: "X", value: [MARKER] });
  await note("POST", `${P}/variables`, `{"name":"X","value":"${MARKER}"`);
  await note("POST", `${P}/variables/batch`, { set: [{ name: "SECRET_2", value: MARKER, sensitive: true }] });
  await note("PATCH", `${P}/variables/SECRET`, { value: MARKER });
  await note("POST", `${E}/variables`, { name: "ALIAS", aliasTarget: "SECRET" });
  for (const path of [`${P}/variables`, `${P}/variables/SECRET`, `${S("web")}/resolved-variables`])
    await note("GET", path);
  const deployed = await deployArchive(world, S("web"), await archiveOf("node"));
  expect((await settled(world, S("web"), deployed.version)).status).toBe("applied");
  expect((await world.must("POST", `${P}/variables/SECRET/reveal`)).value).toBe(MARKER);
  for (const path of ["", "/logs", "/deployments", `/deployments/${deployed.version}/build-logs`])
    await note("GET", S("web") + path);
  await eventually("the reveal is audited", async () => {
    const audit = await world.must<{ data: unknown[] }>(
      "GET",
      `${world.A}/audit-events?action=variable.reveal`,
    );
    return audit.data.length > 0;
  });
  await note("GET", `${world.A}/audit-events?limit=100`);

  expect(JSON.stringify(answers)).not.toContain(MARKER);
  expect(world.logLines.length).toBeGreaterThan(10);
  expect(world.logLines.join("")).not.toContain(MARKER);
  expect(world.logLines.join("")).not.toContain(world.ownerToken);
  expect(await databaseText()).not.toContain(MARKER);
  expect(await eventText()).not.toContain(MARKER);
  expect(await processArguments()).not.toContain(MARKER);
});
