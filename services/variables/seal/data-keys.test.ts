import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { readConfig } from "../../kit/process/config.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { fields } from "../config.ts";
import { rotate } from "../rotate.ts";
import { deployerEvents, startVariables, type TestVariables, testKek } from "../testing.ts";
import { parseKeys } from "./seal.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

const wrong = `k1:${Buffer.alloc(32, 1).toString("base64")}`;
const next = `k2:${Buffer.alloc(32, 2).toString("base64")}`;

async function storedKey(accountId: string) {
  const { rows } = await world.pool.query("select kek_id, wrapped from data_keys where account_id = $1", [
    accountId,
  ]);
  return rows as { kek_id: string; wrapped: Buffer }[];
}

/** A second process of the service with other encryption keys, while `work` runs. */
async function under<T>(
  keys: string,
  accountId: string,
  work: (editor: ReturnType<TestVariables["as"]>, port: number) => Promise<T>,
) {
  const other = await world.startOne({ ENCRYPTION_KEYS: keys });
  try {
    return await work(world.as(accountId, "editor", other.port), other.port);
  } finally {
    await other.stop();
  }
}

describe.each([
  ["a wrong key under the right id", wrong],
  ["a key of another id", next],
])("with %s", (_what, keys) => {
  test("what is stored answers 503, nothing is overwritten, and no second data key is made", async () => {
    const { P, S, ids, accountId } = world.scene();
    const right = world.as(accountId);
    await right.createVariable({ ...P, name: "PLAIN", value: "p" });
    await right.createVariable({ ...P, name: "SECRET", value: "s", sensitive: true });
    await right.createVariable({ ...P, name: "ALIAS", aliasTarget: "SECRET" });
    const key = await storedKey(accountId);
    const at = (variableName: string) => ({ ...P, variableName });
    await under(keys, accountId, async (editor, port) => {
      const calls = [
        editor.listVariables(P),
        editor.getVariable(at("PLAIN")),
        editor.getVariable(at("SECRET")),
        editor.revealVariable(at("PLAIN")),
        editor.revealVariable(at("ALIAS")),
        editor.getResolvedVariables(S),
        world.service(port).resolveRelease({ serviceId: ids.web! }),
        editor.createVariable({ ...P, name: "NEW", value: "n" }),
        editor.createVariable({ ...P, name: "NEW", aliasTarget: "PLAIN" }),
        editor.updateVariable({ ...at("PLAIN"), value: "n" }),
        editor.updateVariable({ ...at("SECRET"), sensitive: false }),
        editor.updateVariable({ ...at("ALIAS"), aliasTarget: "PLAIN" }),
        editor.batchVariables({ ...P, set: [{ name: "SECRET", value: "n" }] }),
        editor.batchVariables({ ...P, set: [{ name: "PLAIN", aliasTarget: "SECRET" }] }),
      ];
      expect(new Set(await Promise.all(calls.map(refused)))).toEqual(new Set(["503 unavailable"]));
    });
    expect(await storedKey(accountId)).toEqual(key);
    const values = Object.fromEntries(
      (await right.getResolvedVariables(S)).data.map(({ name, value }) => [name, value]),
    );
    expect(values).toEqual({ PLAIN: "p", SECRET: undefined, ALIAS: undefined });
    expect((await right.revealVariable(at("ALIAS"))).value).toBe("s");
  });
});

test("a value that was moved, exchanged or damaged in the database is 503, and no other value is answered", async () => {
  const { P, S, accountId } = world.scene();
  const editor = world.as(accountId);
  for (const name of ["A", "B", "C"]) await editor.createVariable({ ...P, name, value: `of ${name}` });
  const set = (sealed: string, name: string) =>
    world.pool.query(`update variables set sealed = ${sealed} where scope_id = $1 and name = $2`, [
      P.projectId,
      name,
    ]);
  await set("(select sealed from variables where scope_id = $1 and name = 'B')", "A");
  const calls = [
    editor.revealVariable({ ...P, variableName: "A" }),
    editor.getVariable({ ...P, variableName: "A" }),
    editor.getResolvedVariables(S),
    editor.revealResolvedVariables(S),
    editor.listVariables(P),
  ];
  expect(new Set(await Promise.all(calls.map(refused)))).toEqual(new Set(["503 unavailable"]));
  await set("'\\x0102'", "B");
  expect(await refused(editor.revealVariable({ ...P, variableName: "B" }))).toBe("503 unavailable");
  expect((await editor.revealVariable({ ...P, variableName: "C" })).value).toBe("of C");
  const reveals = await eventually("the reveal is recorded", async () => {
    const records = world.published(AuditRecordedSchema, accountId);
    const found = records.filter((record) => record.action === "variable.reveal");
    return found.length > 0 && found;
  });
  expect(reveals.map((record) => record.target)).toEqual(["C"]);
});

test("an account whose data key was lost does not get another one over its values", async () => {
  const { P, accountId } = world.scene();
  await world.as(accountId).createVariable({ ...P, name: "A", value: "1" });
  await world.pool.query("delete from data_keys where account_id = $1", [accountId]);
  await under(testKek, accountId, async (editor) => {
    expect(await refused(editor.createVariable({ ...P, name: "B", value: "1" }))).toBe("503 unavailable");
    expect(await refused(editor.getVariable({ ...P, variableName: "A" }))).toBe("503 unavailable");
  });
  expect(await storedKey(accountId)).toEqual([]);
});

test("processes that first use an account at the same moment agree on one data key", async () => {
  const others = await Promise.all([world.startOne(), world.startOne()]);
  const ports = [world.port, ...others.map((other) => other.port)];
  for (let round = 0; round < 5; round++) {
    const { P, accountId } = world.scene();
    const editors = ports.map((port) => world.as(accountId, "editor", port));
    await Promise.all(
      editors.map((editor, i) => editor.createVariable({ ...P, name: `N${i}`, value: `${i}` })),
    );
    expect(await storedKey(accountId)).toHaveLength(1);
    for (const editor of editors)
      for (const i of ports.keys())
        expect((await editor.revealVariable({ ...P, variableName: `N${i}` })).value).toBe(`${i}`);
  }
  await Promise.all(others.map((other) => other.stop()));
});

describe("rotation", () => {
  const both = `${next},${testKek}`;

  test("puts data keys under the first key; values, tags and running processes stay as they are", async () => {
    const { P, S, ids, accountId } = world.scene();
    const editor = world.as(accountId);
    await editor.createVariable({ ...P, name: "A", value: "1", sensitive: true });
    const release = (port?: number) => world.service(port).resolveRelease({ serviceId: ids.web! });
    const before = await release();
    await under(both, accountId, async (early) => {
      expect((await early.revealVariable({ ...P, variableName: "A" })).value).toBe("1");
    });
    const { rewrapped } = await rotate(world.pool, parseKeys(both));
    expect(rewrapped).toBeGreaterThan(0);
    expect((await storedKey(accountId)).map((row) => row.kek_id)).toEqual(["k2"]);
    expect(await rotate(world.pool, parseKeys(both))).toMatchObject({ rewrapped: 0 });
    expect((await editor.revealVariable({ ...P, variableName: "A" })).value).toBe("1");
    await under(next, accountId, async (late, port) => {
      expect((await late.revealVariable({ ...P, variableName: "A" })).value).toBe("1");
      expect((await release(port)).fingerprint).toBe(before.fingerprint);
      expect((await late.getResolvedVariables(S)).data).toHaveLength(1);
    });
    await under(testKek, accountId, async (old) => {
      expect(await refused(old.revealVariable({ ...P, variableName: "A" }))).toBe("503 unavailable");
    });
    await rotate(world.pool, parseKeys(`${testKek},${next}`));
  });

  test("as a command reports what it did, and leaves data keys that no key unwraps", async () => {
    const { P, accountId } = world.scene();
    await world.as(accountId).createVariable({ ...P, name: "A", value: "1" });
    const run = (keys: string) =>
      promisify(execFile)(process.execPath, [join(import.meta.dirname, "../rotate.ts")], {
        env: { ...process.env, DATABASE_URL: world.env.DATABASE_URL, ENCRYPTION_KEYS: keys },
      });
    const key = await storedKey(accountId);
    const failed = (await run(next).catch((error) => error)) as { code: number; stderr: string };
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain(accountId);
    expect(await storedKey(accountId)).toEqual(key);
    expect((await run(both)).stdout).toMatch(/^\d+ data keys are now under k2\n$/);
    expect((await run(`${testKek},${next}`)).stdout).toMatch(/under k1/);
  });
});

test("unusable encryption keys stop the start, with a sentence that shows none of them", () => {
  const read = (ENCRYPTION_KEYS: string) => readConfig({ ...world.env, ENCRYPTION_KEYS }, fields);
  expect(() => read("")).toThrow(/ENCRYPTION_KEYS is not set/);
  expect(() => read("k1:c2hvcnQ=")).toThrow(/ENCRYPTION_KEYS entry 1 must carry 32 bytes/);
  expect(() => read("k1:c2hvcnQ=")).not.toThrow(/c2hvcnQ/);
});

test("no plaintext is in the database, in what is published, in logs or in refusals", async () => {
  const { P, E, S, ids, accountId } = world.scene({ web: "web", db: "postgres" });
  const editor = world.as(accountId);
  const marker = (what: string) => `marker-${what}-7f3a`;
  await editor.createVariable({ ...P, name: "SECRET", value: marker("secret"), sensitive: true });
  await editor.createVariable({ ...E, name: "PLAIN", value: marker("plain") });
  await editor.batchVariables({ ...S, set: [{ name: "BATCH", value: marker("batch"), sensitive: true }] });
  await editor.updateVariable({ ...P, variableName: "SECRET", value: marker("patched") });
  world.tree.publish(ids.db!, { URL: marker("url"), HOST: marker("host") });
  await editor.createVariable({ ...E, name: "DB", connection: { service: "db", key: "URL" } });
  const serviceId = ids.db!;
  await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, {
    accountId,
    serviceId,
    revision: 1n,
  });
  await editor.revealVariable({ ...E, variableName: "DB" });
  await editor.getResolvedVariables(S);
  await world.service().resolveRelease({ serviceId: ids.web! });
  const calls = [
    editor.createVariable({ ...P, name: "SECRET", value: marker("again") }),
    editor.createVariable({ ...P, name: "LONG", value: marker("long").padEnd(70_000, "x") }),
    editor.createVariable({ ...P, name: marker("name"), value: marker("bad") }),
    editor.updateVariable({ ...E, variableName: "DB", value: marker("kind") }),
    editor.batchVariables({ ...P, set: [{ name: "X", value: `${marker("nul")}\0` }] }),
  ];
  const messages = await Promise.all(
    calls.map((call) =>
      call.then(
        () => "",
        (error: Error) => JSON.stringify(error, Object.getOwnPropertyNames(error)),
      ),
    ),
  );
  for (const message of messages) expect(message).not.toBe("");
  await under(wrong, accountId, (other) => other.listVariables(P).catch(() => undefined));
  await eventually("everything is published", async () => {
    const { rowCount } = await world.pool.query("select from outbox");
    return rowCount === 0;
  });
  const tables = await world.pool.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = current_schema()",
  );
  expect(tables.rows.length).toBeGreaterThan(5);
  for (const { name } of tables.rows) {
    const { rows } = await world.pool.query<{ hex: string }>(
      `select encode(convert_to(t::text, 'UTF8'), 'hex') as hex from ${name} t`,
    );
    // Rows as text, and bytea columns in them, which the text shows as hex.
    const dump = rows.map((row) => Buffer.from(row.hex, "hex").toString()).join("\n");
    expect(dump).not.toContain("marker-");
    expect(dump).not.toContain(Buffer.from("marker-").toString("hex"));
  }
  const sinks = [
    ...world.seen.map((message) => message.subject + Buffer.from(message.data).toString("latin1")),
    ...world.logLines,
    ...messages,
  ];
  expect(world.seen.length).toBeGreaterThan(5);
  expect(world.logLines.length).toBeGreaterThan(20);
  for (const line of sinks) expect(line).not.toContain("marker-");
});
