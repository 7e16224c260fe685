import { cpSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { open } from "../../support/apps.ts";
import { type Machine, openMachine } from "../../support/cli.ts";
import { openPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
let machine: Machine;
const app = join(import.meta.dirname, "../../apps/node");
const project = `cli-${Math.random().toString(36).slice(2, 8)}`;

beforeAll(async () => {
  world = await openPlatform();
  machine = openMachine(world.processEnv);
  cpSync(app, machine.folder, { recursive: true });
  await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
  // The user has to say once which of several accounts is meant.
  await world.must("POST", "/accounts", { handle: `${project}-other` });
});

afterAll(async () => {
  await machine?.berth(["projects", "delete", project, "--yes"]);
  machine?.remove();
  await world?.stop();
});

const json = async <T>(...args: string[]): Promise<T> =>
  JSON.parse(await machine.must([...args, "--json"])) as T;

test("three commands sign in, create a project and deploy a folder; what follows sees it", async () => {
  expect(statSync(machine.credentials).mode & 0o777).toBe(0o600);
  const asked = await machine.berth(["init", project]);
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("several accounts")]);
  const created = await machine.berth(["init", project, "--account", world.accountId]);
  expect(created.stderr).toContain(`Created the project ${project}.`);
  // A run that was interrupted is completed by the next.
  expect((await machine.berth(["init", project])).stderr).toContain(`Found the project ${project}.`);
  const link = readFileSync(join(machine.folder, ".berth.json"), "utf8");
  expect(link).not.toContain(world.ownerToken);
  await machine.must(["vars", "set", "GREETING=Hello from a terminal"]);
  const up = await machine.berth(["up"]);
  expect([up.code, up.stderr]).toEqual([
    0,
    expect.stringMatching(/Packing .*Uploading .*Building .*v1 healthy in/s),
  ]);
  const url = up.stdout.trim();
  expect((await open(url)).body).toContain("Hello from a terminal");

  const status = await json<{ data: { name: string; liveVersion: number; url: string }[] }>("status");
  expect(status.data).toMatchObject([{ name: "web", liveVersion: 1, url }]);
  expect(await machine.must(["status"])).toMatch(
    /SERVICE +TYPE +STATUS +LIVE +ADDRESS\nweb +web +running +v1 +http/,
  );
  expect(await machine.must(["open"])).toBe(`${url}\n`);
  const versions = await machine.must(["status", "--deployments"]);
  expect(versions).toMatch(
    /VERSION +STATUS +HEALTH +CREATED +BY +SOURCE\nv1 live +applied +healthy +.* ago +\S/,
  );
  const logs = (await machine.must(["logs", "--json"])).trim().split("\n");
  expect(logs.map((line) => JSON.parse(line).message)).toContainEqual(
    expect.stringContaining("listening on port"),
  );
  expect(await machine.must(["logs", "--grep", "listening", "-n", "1"])).toMatch(
    /^\S+ listening on port \d+\n$/,
  );
  expect(await machine.must(["logs", "--grep", "nothing like this"])).toBe("");
  expect(await machine.must(["logs", "--build", "latest"])).toContain("Detected a Node.js app");
});

test("a folder whose build fails ends with 3, says why and what to type; what is live stays", async () => {
  const broken = openMachine({ ...world.processEnv, XDG_CONFIG_HOME: join(machine.home, ".config") });
  broken.write({
    "notes.txt": "no app",
    ".berth.json": readFileSync(join(machine.folder, ".berth.json"), "utf8"),
  });
  const failed = await broken.berth(["up", "--json"]);
  broken.remove();
  expect(failed.code).toBe(3);
  expect(JSON.parse(failed.stdout)).toMatchObject({
    outcome: "failed",
    deployment: { version: 2, status: "failed" },
  });
  const { error } = JSON.parse(failed.stderr.trim().split("\n").at(-1)!);
  expect(error).toMatchObject({
    code: "runtime_not_detected",
    exitCode: 3,
    next: "berth logs web --build 2",
  });
  expect(await machine.must(["status"])).toMatch(/web +web +\S+ +v1 /);
});

test("an app that does not become healthy ends with 3 as well", async () => {
  const crashing = openMachine({ ...world.processEnv, XDG_CONFIG_HOME: join(machine.home, ".config") });
  crashing.write({
    "package.json": '{"scripts":{"start":"node server.js"}}',
    "server.js": 'console.error("no database here"); process.exit(1);',
    ".berth.json": readFileSync(join(machine.folder, ".berth.json"), "utf8"),
  });
  const failed = await crashing.berth(["up"]);
  crashing.remove();
  expect([failed.code, failed.stdout]).toEqual([3, ""]);
  expect(failed.stderr).toMatch(
    /Error: v3 of web does not become healthy: .*\n {2}Next: berth logs web, then berth up or berth rollback/s,
  );
});

test("of a repository with several apps, berth names the setting that chooses one, and the command that sets it", async () => {
  const several = openMachine({ ...world.processEnv, XDG_CONFIG_HOME: join(machine.home, ".config") });
  const app = (text: string) => ({ scripts: { start: `node -e '${serve(text)}'` } });
  several.write({
    "package.json": '{"private":true,"workspaces":["apps/*"]}',
    "apps/api/package.json": JSON.stringify(app("from the api")),
    "apps/shop/package.json": JSON.stringify(app("from the shop")),
    ".berth.json": readFileSync(join(machine.folder, ".berth.json"), "utf8"),
  });
  await machine.must(["services", "create", "api"]);
  const failed = await several.berth(["up", "-s", "api"]);
  expect([failed.code, failed.stderr]).toEqual([3, expect.stringContaining("apps/api, apps/shop")]);
  const path = "/accounts/{account}/projects/{project}/environments/{environment}/services/{service}";
  expect(failed.stderr).toContain(
    `Next: berth api PATCH ${path} -s api -d '{"config":{"rootDirectory":"VALUE"}}'`,
  );
  await several.must(["api", "PATCH", path, "-s", "api", "-d", '{"config":{"rootDirectory":"apps/api"}}']);
  expect((await open((await several.must(["up", "-s", "api"])).trim())).body).toBe("from the api");
  several.remove();
  // It is being deleted while the tests below go on.
  await machine.must(["services", "delete", "api", "--yes"]);
});

const serve = (text: string) =>
  `process.on("SIGTERM", () => {}); require("http").createServer((_, res) => res.end("${text}")).listen(process.env.PORT)`;

test("a rollback shows what changes, asks, and is refused where nobody can answer", async () => {
  const asked = await machine.berth(["rollback", "1"]);
  expect([asked.code, asked.stdout]).toEqual([2, ""]);
  expect(asked.stderr).toMatch(/Back to v1 .*Next: berth rollback 1 --yes/s);
  await machine.must(["scale", "2"]);
  const dry = await json<{ diff: { config: string[] } }>("rollback", "1", "--dry-run");
  expect(dry.diff.config).toEqual(["replicas"]);
  const back = await machine.berth(["rollback", "1", "--yes"]);
  expect([back.code, back.stderr]).toEqual([0, expect.stringContaining("v4 healthy")]);
  expect((await machine.berth(["cancel"])).stderr).toContain("No deployment of web is under way.");
});

test("variables are listed with their source, explained, exported, imported again and removed with their impact", async () => {
  const { must, berth } = machine;
  await must(["vars", "set", "GREETING=from the project", "LEVEL=info", "--scope", "project"]);
  await must(["vars", "set", "API_KEY", "--sensitive"], { input: "k-123\n" });
  await must(["vars", "set", "KEY_AGAIN", "--alias", "API_KEY", "--scope", "environment"]);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is meant as it is
  const template = await berth(["vars", "set", "DATABASE_URL=${{db.DATABASE_URL}}"]);
  expect(template.stderr).toContain(
    "nothing replaces. To refer: berth vars set DATABASE_URL --connection db.URL",
  );
  await must(["vars", "set", "DATABASE_URL", "--connection", "db.URL"]);
  const listed = await must(["vars"]);
  expect(listed).toMatch(/API_KEY +•+ +service\n/);
  expect(listed).toMatch(/GREETING +Hello from a terminal +service, shadows project\n/);
  expect(listed).toMatch(/DATABASE_URL +does not resolve +service_not_found\n/);
  expect(listed).not.toContain("k-123");
  const why = await must(["vars", "why", "GREETING"]);
  expect(why).toBe(
    `GREETING  literal  from service web  Hello from a terminal\n  shadows project ${project}\n`,
  );
  expect(await must(["vars", "why", "KEY_AGAIN"])).toContain("→ API_KEY  from service web");
  expect(await must(["vars", "reveal", "KEY_AGAIN"])).toBe("k-123");
  const exported = await must(["vars", "export"]);
  expect(exported.split("\n").sort()).toEqual(
    ["", "API_KEY=k-123", "GREETING='Hello from a terminal'", "KEY_AGAIN=k-123", "LEVEL=info"].sort(),
  );
  machine.write({ "more.env": "# a comment\nMULTI='two\nlines'\nexport LEVEL=\"debug\"\n" });
  await must(["vars", "import", "more.env"]);
  expect(await must(["run", "--", process.execPath, "-p", "process.env.MULTI + process.env.LEVEL"])).toBe(
    "two\nlinesdebug\n",
  );
  const asked = await berth(["vars", "unset", "LEVEL", "--scope", "project"]);
  expect([asked.code, asked.stderr]).toEqual([
    2,
    expect.stringMatching(/No service receives it.*--scope project --yes/s),
  ]);
  await must(["vars", "unset", "LEVEL", "GREETING", "--scope", "project", "--yes"]);
  expect(await must(["vars", "--scope", "project", "--json"])).toBe('{"data":[]}\n');
});

test("a command runs with the variables, its exit code is berth's, and starts again when they change", async () => {
  expect((await machine.berth(["run", "--", "sh", "-c", "exit 7"])).code).toBe(7);
  expect((await machine.berth(["run", "--", "no-such-program"])).stderr).toContain(
    "There is no program no-such-program.",
  );
  const script = "console.log('has ' + process.env.GREETING); setInterval(() => {}, 1000)";
  const running = machine.start(["run", "--watch", "--", process.execPath, "-e", script]);
  await running.said(/has Hello from a terminal/);
  await machine.must(["vars", "set", "GREETING=changed"]);
  await running.said(/has changed/);
  running.child.kill("SIGTERM");
  expect((await running.ended).code).toBe(143);
});

test("an addon is reached by a local port, wherever it runs", async () => {
  const made = await machine.berth(["services", "create", "db", "--type", "postgres"]);
  expect(made.stderr).toContain("berth vars set DATABASE_URL --connection db.URL");
  const cache = await machine.berth(["services", "create", "cache", "--type", "redis"]);
  expect(cache.stderr).toContain("berth vars set REDIS_URL --connection cache.URL");
  await eventually("the addon runs", async () => {
    const { data } = JSON.parse(await machine.must(["addons", "--json"]));
    return data.find(({ name }: { name: string }) => name === "db").status === "running";
  });
  const connecting = machine.start(["addons", "connect", "db", "--port", "0"]);
  const [url] = (await connecting.said(/^postgres:\/\/\w+:.+@127\.0\.0\.1:\d+\/\w+$/m))!;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  const { connections, postgres } = JSON.parse(await machine.must(["addons", "stats", "db", "--json"]));
  expect(connections).toMatchObject({ open: 1, active: 0 });
  // CloudNativePG collects none.
  const collected =
    postgres.statementsReason ?? postgres.statements.map(({ text }: { text: string }) => text);
  expect(String(collected)).toMatch(/select \$1 as one|does not collect statements/);
  await client.end();
  connecting.child.kill("SIGINT");
  expect((await connecting.ended).code).toBe(130);
});

test("any request can be sent, and a refusal is its answer with exit code 1", async () => {
  const found = JSON.parse(await machine.must(["api", "GET", "/accounts/{account}/projects/{project}"]));
  expect(found.name).toBe(project);
  const refused = await machine.berth([
    "api",
    "POST",
    "/accounts/{account}/projects",
    "-d",
    '{"name":"No!"}',
  ]);
  expect([refused.code, JSON.parse(refused.stdout)]).toMatchObject([
    1,
    { error: { code: "validation_failed" } },
  ]);
  const unknown = await machine.berth(["services", "create", "No!"]);
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining("name:")]);
});

test("what is deleted is shown first, and nothing is deleted where nobody can answer", async () => {
  const asked = await machine.berth(["services", "delete", "web"]);
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringMatching(/service web with status .*--yes/s)]);
  const deleted = await machine.berth(["services", "delete", "web", "--yes"]);
  expect([deleted.code, deleted.stderr]).toEqual([
    0,
    expect.stringMatching(/1 service in it is live: web.*Deleted/s),
  ]);
  await machine.must(["projects", "delete", project, "--yes"]);
  const gone = await machine.berth(["status"]);
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("berth link")]);
});

test("signing out forgets the token", async () => {
  await machine.must(["logout"]);
  expect(existsSync(machine.credentials)).toBe(true);
  expect(readFileSync(machine.credentials, "utf8")).not.toContain(world.ownerToken);
  const out = await machine.berth(["whoami", "--json"]);
  expect([out.code, JSON.parse(out.stderr).error.code]).toEqual([1, "unauthenticated"]);
});
