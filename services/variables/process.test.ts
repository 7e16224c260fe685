import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VariablesChangedSchema } from "../../proto/gen/berth/variables/v1/events_pb.ts";
import { freePort } from "../kit/process/free-port.ts";
import { nodeEnv } from "../kit/testing/service-process.ts";
import { eventually } from "../kit/testing/testing.ts";
import { startVariables, type TestVariables } from "./testing.ts";

let world: TestVariables;
const children: ChildProcess[] = [];

beforeAll(async () => {
  world = await startVariables();
});

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await world.stop();
});

/** Starts variables as an operator does, beside the one in this process, and waits until it is ready. */
async function run(port: number, more: Record<string, string> = {}) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts")], {
    env: { ...nodeEnv, ...world.env, LOG_LEVEL: "debug", PORT: String(port), ...more },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const out = { text: "" };
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (part: Buffer) => {
      out.text += part;
    });
  await eventually("variables is ready", () =>
    fetch(`http://127.0.0.1:${port}/readyz?exclude=events`).then(
      (answer) => answer.ok,
      () => false,
    ),
  );
  return { child, out };
}

test("a process killed amid batches leaves each of them complete or absent, and published exactly once", async () => {
  const { P, accountId } = world.scene();
  const here = world.as(accountId);
  const set = (value: string) => Array.from({ length: 200 }, (_, i) => ({ name: `N${i}`, value }));
  await here.batchVariables({ ...P, set: set("start") });
  for (let round = 0; round < 4; round++) {
    const port = await freePort();
    const { child } = await run(port);
    const there = world.as(accountId, "editor", port);
    let answered = 0;
    const writing = (async () => {
      for (let i = 0; ; i++, answered++) await there.batchVariables({ ...P, set: set(`${round}-${i}`) });
    })().catch(() => {});
    await eventually("batches are under way", async () => answered >= 2 + round);
    child.kill("SIGKILL");
    await Promise.all([once(child, "exit"), writing]);
    const { data } = await here.listVariables({ ...P, limit: 100 });
    expect(new Set(data.map((variable) => variable.value)).size).toBe(1);
  }
  const last = await here.batchVariables({ ...P, set: set("end") });
  expect(last.applied).toBe(200);
  const { rows } = await world.pool.query("select revision from scopes where id = $1", [P.projectId]);
  const revisions = Array.from({ length: rows[0].revision }, (_, i) => BigInt(i + 1));
  await eventually("the last change is told", async () =>
    world.published(VariablesChangedSchema, accountId).some(({ revision }) => revision === revisions.at(-1)),
  );
  // A relay that was killed between publishing and deleting publishes again; the stream keeps it once.
  const kept = await world.kept(`berth.variables.v1.VariablesChanged.${accountId}`, VariablesChangedSchema);
  expect(kept.map(({ revision }) => revision)).toEqual(revisions);
});

test("it starts and writes while NATS is away, prints no value, and ends at SIGTERM", async () => {
  const { P, accountId } = world.scene();
  const port = await freePort();
  const { child, out } = await run(port, { NATS_URL: `nats://127.0.0.1:${await freePort()}` });
  const there = world.as(accountId, "editor", port);
  await there.createVariable({ ...P, name: "A", value: "marker-of-process", sensitive: true });
  expect((await there.revealVariable({ ...P, variableName: "A" })).value).toBe("marker-of-process");
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  expect([code, out.text.includes("events wait in the outbox")]).toEqual([0, true]);
  expect(out.text).not.toContain("marker-of-process");
  for (const key of [world.env.ENCRYPTION_KEYS, world.env.INTERNAL_KEYS]) expect(out.text).not.toContain(key);
  await eventually("the change is told by the process that reaches NATS", async () =>
    world.published(VariablesChangedSchema, accountId).some(({ names }) => names.includes("A")),
  );
});
