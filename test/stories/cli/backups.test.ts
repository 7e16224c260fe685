import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect } from "vitest";
import { withDumps } from "../../../services/deployer/addons/testing.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { type Machine, openMachine } from "../../support/cli.ts";
import { openPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
let machine: Machine;
const project = `backups-${Math.random().toString(36).slice(2, 8)}`;

beforeAll(async () => {
  world = await openPlatform();
  machine = openMachine(world.processEnv);
  await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
});

afterAll(async () => {
  await machine?.berth(["projects", "delete", project, "--yes"]);
  machine?.remove();
  await world?.stop();
});

withDumps("a database is backed up, loses a table by mistake, and is restored", async () => {
  await machine.must(["init", project, "--account", world.accountId, "--type", "worker"]);
  await machine.must(["services", "create", "db", "--type", "postgres"]);
  await machine.must(["vars", "set", "DATABASE_URL", "--connection", "db.URL"]);
  const url = await eventually("the addon has an address", async () => {
    const revealed = await machine.berth(["vars", "reveal", "DATABASE_URL"]);
    return revealed.code === 0 && revealed.stdout.trim();
  });
  async function query(text: string): Promise<unknown[]> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query(text);
    await client.end();
    return rows;
  }
  expect((await machine.berth(["backups", "db"])).stderr).toContain("berth backups create db");
  await query("create table orders (id int); insert into orders values (7)");
  const [, id = ""] = /^(bkp_\w+) {2}\S/.exec(await machine.must(["backups", "create", "db"])) ?? [];
  expect(await machine.must(["backups", "db"])).toMatch(new RegExp(`${id} +succeeded +manual`));

  await query("drop table orders");
  const asked = await machine.berth(["backups", "restore", "db", id]);
  expect([asked.code, asked.stderr]).toEqual([
    2,
    expect.stringContaining("What was written since then is lost."),
  ]);
  expect((await machine.berth(["backups", "restore", "db", id, "--yes"])).stderr).toContain(
    "db has the data of",
  );
  expect(await query("select * from orders")).toEqual([{ id: 7 }]);

  await machine.must(["services", "create", "copy", "--type", "postgres"]);
  await eventually("the other one runs", async () =>
    /copy +postgres +running/.test(await machine.must(["status"])),
  );
  const other = await machine.berth(["backups", "restore", "copy", id, "--yes"]);
  expect([other.code, other.stderr]).toEqual([0, expect.stringContaining(`copy has the data of ${id}`)]);

  const file = join(machine.folder, "db.dump");
  expect((await machine.berth(["backups", "download", "db", id, "-o", file])).stderr).toContain("Saved");
  expect((await readFile(file)).subarray(0, 5).toString()).toBe("PGDMP");
  expect((await stat(file)).mode & 0o077).toBe(0);

  const [, sent = ""] =
    /^(bkp_\w+) {2}\S/.exec(await machine.must(["backups", "upload", "copy", file])) ?? [];
  expect(await machine.must(["backups", "copy"])).toMatch(new RegExp(`${sent} +succeeded +uploaded`));
  await machine.must(["backups", "restore", "copy", sent, "--yes"]);
  const plain = join(machine.folder, "plain.sql");
  await writeFile(plain, "--\n-- PostgreSQL database dump\n--\n");
  const sql = await machine.berth(["backups", "upload", "copy", plain]);
  expect([sql.code, sql.stderr]).toEqual([1, expect.stringContaining("pg_dump --format=custom")]);
  const none = await machine.berth(["backups", "upload", "copy", "not-there"]);
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("no file not-there")]);
  const folder = await machine.berth(["backups", "upload", "copy", machine.folder]);
  expect([folder.code, folder.stderr]).toEqual([1, expect.stringContaining(`no file ${machine.folder}`)]);

  await machine.must(["envs", "create", "staging"]);
  const forked = await machine.berth(["fork", "db", "--to", "staging"]);
  expect([forked.code, forked.stderr]).toEqual([0, expect.stringContaining(`db has the data of ${id}`)]);
  expect(await machine.must(["status", "-e", "staging"])).toMatch(/db +postgres +running/);
  const taken = await machine.berth(["fork", "db", "--backup", id]);
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining("The name is taken")]);

  const promoted = await machine.berth(["addons", "promote", "copy", "db"]);
  expect([promoted.code, promoted.stderr]).toEqual([
    0,
    expect.stringContaining("copy is db now, and what was db is copy"),
  ]);
  expect(JSON.parse(await machine.must(["addons", "promote", "copy", "db", "--json"]))).toMatchObject({
    name: "db",
  });
  const alone = await machine.berth(["addons", "promote", "db", "db"]);
  expect([alone.code, alone.stderr]).toEqual([1, expect.stringContaining("Name the other addon")]);

  await machine.must(["backups", "delete", "db", id, "--yes"]);
  const gone = await machine.berth(["backups", "restore", "db", id, "--yes"]);
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("There is no such backup.")]);
  const worker = await machine.berth(["backups", "create", "worker"]);
  expect([worker.code, worker.stderr]).toEqual([
    1,
    expect.stringContaining("A worker service has no backups."),
  ]);
});

withDumps("a moment is refused with the reason where addons have no archive", async () => {
  for (const args of [
    ["backups", "create", "db"],
    ["backups", "restore", "db", "--yes"],
    ["fork", "db", "--name", "then"],
  ]) {
    const { code, stderr } = await machine.berth([...args, "--at", "10m"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("On one machine, addons have backups, and no"),
    ]);
  }
  const bad = await machine.berth(["backups", "create", "db", "--at", "noon"]);
  expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("--at is a time such as 10m")]);
  expect((await machine.berth(["backups", "db"])).stderr).not.toContain("--at");
});

withDumps("a database that was deleted is listed, saved, brought back and forgotten", async () => {
  await machine.must(["services", "create", "lost", "--type", "postgres"]);
  await eventually("it runs", async () => /lost +postgres +running/.test(await machine.must(["status"])));
  const [, id = ""] = /^(bkp_\w+)/.exec(await machine.must(["backups", "create", "lost"])) ?? [];
  const asked = await machine.berth(["services", "delete", "lost", "--yes"]);
  expect([asked.code, asked.stderr]).toEqual([0, expect.stringContaining("is kept until 20")]);
  const shown = await machine.berth(["backups"]);
  expect(shown.stdout).toMatch(new RegExp(`${id} +lost +postgres +${project}/production .* more`));
  expect(shown.stderr).toContain("berth backups recover");
  const file = join(machine.folder, "lost.dump");
  await machine.must(["backups", "download", id, "-o", file]);
  expect((await readFile(file)).subarray(0, 5).toString()).toBe("PGDMP");
  const back = await machine.berth(["backups", "recover", id, "--name", "found"]);
  expect([back.code, back.stderr]).toEqual([0, expect.stringContaining(`found has the data of ${id}`)]);
  await machine.must(["backups", "delete", id, "--yes"]);
  expect((await machine.berth(["backups"])).stdout).not.toContain(id);
  const gone = await machine.berth(["backups", "recover", id]);
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("There is no such backup.")]);
});
