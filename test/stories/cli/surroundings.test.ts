import { once } from "node:events";
import { chmodSync, cpSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import http from "node:http";
import { type AddressInfo, connect, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { hasTerminals, type Machine, openMachine } from "../../support/cli.ts";
import { consent } from "../../support/oauth/application.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
/** A machine that is signed in with a token and linked to the service web of a project of its own. */
let machine: Machine;
const app = join(import.meta.dirname, "../../apps/node");
const machines: Machine[] = [];
const servers: Server[] = [];

beforeAll(async () => {
  world = await startWorld();
  machine = open();
  cpSync(app, machine.folder, { recursive: true });
  await machine.must(["login", world.origin, "--token", "-"], { input: world.ownerToken });
  await machine.must(["init", "surroundings"]);
});

afterAll(async () => {
  for (const each of machines) each.remove();
  for (const each of servers) each.close();
  await world?.stop();
});

function open(env: Record<string, string> = {}): Machine {
  const made = openMachine(env);
  machines.push(made);
  return made;
}

/** Starts a server, and returns its URL. */
async function listening(server: Server): Promise<string> {
  servers.push(server.listen(0, "127.0.0.1"));
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Passed = { status: number; text: string };
type Pass = (path?: string) => Promise<Passed>;

/** Starts a server before the platform that changes some of its answers; what it leaves undefined passes, streams too. */
function between(
  answer: (request: http.IncomingMessage, pass: Pass, body: string) => Promise<Passed | undefined>,
): Promise<string> {
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { host: _, connection: __, ...headers } = request.headers as Record<string, string>;
    const sent = {
      method: request.method!,
      headers,
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    };
    const pass: Pass = async (path = request.url!) => {
      const passed = await fetch(world.origin + path, sent);
      return { status: passed.status, text: await passed.text() };
    };
    const answered = await answer(request, pass, Buffer.concat(chunks).toString());
    if (!answered) {
      const passing = http.request(world.origin + request.url, sent, (passed) => {
        response.writeHead(passed.statusCode!, passed.headers);
        passed.pipe(response);
      });
      response.on("close", () => passing.destroy());
      passing.on("error", () => response.destroy()).end(sent.body);
      return;
    }
    const { status, text } = answered;
    response.writeHead(status, { "content-type": "application/json" }).end(text);
  });
  return listening(server);
}

const credentialOf = (at: Machine) => JSON.parse(readFileSync(at.credentials, "utf8")).origins[world.origin];

const store = (at: Machine, credential: object) =>
  writeFileSync(at.credentials, JSON.stringify({ version: 1, origins: { [world.origin]: credential } }));

/** Signs in by the browser: the test is the user. */
async function signIn(at: Machine, role: "reader" | "editor" = "editor"): Promise<void> {
  const login = at.start(["login", world.origin]);
  const [, url] = (await login.said(/in a browser on this machine: (\S+)\n/))!;
  const back = await consent(world.call, url!, { accountId: world.accountId, role });
  expect(await (await fetch(back)).text()).toBe("You are signed in. You can close this window.\n");
  const { code, stderr } = await login.ended;
  expect([code, stderr]).toEqual([0, expect.stringMatching(new RegExp(`as ${role} of the account owner`))]);
}

describe("signed in by the browser", () => {
  test("berth is an application of one account; its token is renewed once, by many processes; signing out ends it", async () => {
    const at = open();
    await signIn(at);
    expect(statSync(at.credentials).mode & 0o777).toBe(0o600);
    expect(await at.must(["whoami"])).toBe(`${world.origin}\n  editor of owner\n`);
    const first = credentialOf(at);
    const expired = { ...first, expiresAt: 0 };
    store(at, expired);
    chmodSync(at.credentials, 0o644);
    const all = await Promise.all([1, 2, 3, 4].map(() => at.berth(["projects"])));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    const renewed = credentialOf(at);
    expect(renewed.accessToken).not.toBe(first.accessToken);
    expect(renewed.refreshToken).not.toBe(first.refreshToken);
    expect(statSync(at.credentials).mode & 0o777).toBe(0o600);

    await at.must(["logout"]);
    const ended = await fetch(`${world.origin}/v1/accounts`, {
      headers: { authorization: `Bearer ${renewed.accessToken}` },
    });
    expect(ended.status).toBe(401);
  });

  test("a token that the server refuses is renewed, whatever this machine's clock says", async () => {
    const at = open();
    await signIn(at, "reader");
    const { accessToken, ...rest } = credentialOf(at);
    const [head, body, signature] = accessToken.split(".");
    const forged = [head, body, [...signature].reverse().join("")].join(".");
    const late = { ...rest, accessToken: forged, expiresAt: Date.now() + 86_400_000 };
    store(at, late);
    await at.must(["projects"]);
    expect(credentialOf(at).accessToken).not.toBe(forged);
    const refused = await at.berth(["projects", "create", "no"]);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("This needs the role editor."),
    ]);
  });

  test("whoever denies access is asked nothing else, and nothing is stored", async () => {
    const at = open();
    const login = at.start(["login", world.origin]);
    const [, url] = (await login.said(/in a browser on this machine: (\S+)\n/))!;
    const { searchParams } = new URL(url!);
    const back = new URL(searchParams.get("redirect_uri")!);
    // Somebody who does not know the state ends nothing.
    expect((await fetch(`${back}?error=access_denied&state=guessed`)).status).toBe(404);
    const query = { error: "access_denied", state: searchParams.get("state")!, iss: world.origin };
    await fetch(`${back}?${new URLSearchParams(query)}`);
    const { code, stderr } = await login.ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining("Access was denied.")]);
    expect((await at.berth(["whoami"])).stderr).toContain("You are not signed in.");
  });

  test("without a browser it shows a code, and waits until its user allows or denies access elsewhere", async () => {
    const answer = async (step: "complete" | "reject") => {
      const at = open();
      const login = at.start(["login", world.origin, "--device"]);
      const [, page, userCode] = (await login.said(
        /Open {2}(\S+) {2}in a browser.*type this code:\s+(\S+)\n/s,
      ))!;
      expect(page).toBe(`${world.origin}/device`);
      const choice = step === "complete" ? { accountId: world.accountId, role: "editor" } : {};
      await world.must("POST", `/oauth/device/${step}`, { userCode, ...choice });
      return { at, ...(await login.ended) };
    };
    const [allowed, denied] = await Promise.all([answer("complete"), answer("reject")]);
    expect([allowed.code, allowed.stderr]).toEqual([
      0,
      expect.stringContaining("as editor of the account owner"),
    ]);
    expect(await allowed.at.must(["whoami"])).toContain("editor of owner");
    await allowed.at.must(["logout"]);
    expect([denied.code, denied.stderr]).toEqual([1, expect.stringContaining("Access was denied.")]);
  });

  test("Ctrl-C ends the sign-in, and an installation without codes says that it has none", async () => {
    const login = open().start(["login", world.origin, "--device"]);
    await login.said(/type this code:/);
    login.child.kill("SIGINT");
    const { code, stderr } = await login.ended;
    expect([code, stderr]).toEqual([130, expect.stringMatching(/Canceled\.\n$/)]);
    const older = http.createServer(async (request, response) => {
      const { device_authorization_endpoint: _, ...rest } = (await (
        await fetch(world.origin + request.url)
      ).json()) as Record<string, unknown>;
      response.setHeader("content-type", "application/json").end(JSON.stringify({ ...rest, issuer: origin }));
    });
    const origin = await listening(older);
    const refused = await open().berth(["login", origin, "--device"]);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(/offers no sign-in without a browser.*berth login --token - < FILE/s),
    ]);
  });
});

test("a wrong name in a file of variables is said by itself, not by its place", async () => {
  const input = JSON.stringify({ GOOD: "1", "not-a-name": "2" });
  const { code, stderr } = await machine.berth(["vars", "import", "-"], { input });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^Error: "not-a-name": A name must be /);
});

test("a token of the environment goes where the user says, and never where only a project file says", async () => {
  const at = open({ BERTH_TOKEN: world.ownerToken });
  let asked = 0;
  const other = http.createServer((_request, response) => {
    asked++;
    response.end();
  });
  const origin = await listening(other);
  const file = JSON.parse(readFileSync(join(machine.folder, ".berth.json"), "utf8"));
  at.write({ ".berth.json": JSON.stringify({ ...file, origin }) });
  const refused = await at.berth(["status"]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(`export BERTH_URL=${origin}`)]);
  expect(asked).toBe(0);
  at.write({ ".berth.json": JSON.stringify(file) });
  expect(await at.must(["status"], { env: { BERTH_URL: world.origin } })).toMatch(/web +web/);
});

describe("the command line", () => {
  test("mistakes end with 2 and the next command to type, as JSON where JSON is asked", async () => {
    const lines: [string[], string, string][] = [
      [["stauts"], 'There is no command "stauts".', "berth status"],
      [["up", "--dry"], "Unknown option '--dry'.", "berth up --help"],
      [["up", "a", "b"], 'berth up takes [FOLDER], not "b".', "berth up --help"],
      [["vars", "set"], "berth vars set takes NAME[=VALUE]….", "berth vars set --help"],
      [["logs", "-n", "many"], '--lines is a number, not "many".', "undefined"],
      [
        ["scale", "2", "--size", "huge"],
        '--size is nano, small, medium, large, not "huge".',
        "berth scale --help",
      ],
    ];
    const all = await Promise.all(lines.map(([args]) => machine.berth([...args, "--json"])));
    for (const [n, [, message, next]] of lines.entries()) {
      const { error } = JSON.parse(all[n]!.stderr);
      expect([all[n]!.code, all[n]!.stdout, error.message, String(error.next)]).toEqual([
        2,
        "",
        message,
        next,
      ]);
    }
  });

  test("what is sent is listed without a sign-in, and without sending it", async () => {
    const at = open();
    at.write({ ".gitignore": "*.log\n", "a.log": "", "main.js": "12345" });
    const listed = JSON.parse(await at.must(["up", "--dry-run", "--json"]));
    expect(listed).toMatchObject({ files: 2, bytes: 11, rules: ".gitignore" });
    expect(await at.must(["up", "--dry-run", "--exclude", "main.js"])).not.toContain("main.js");
  });

  test("a reader that has read enough ends it without an error", async () => {
    const piped = machine.start(["completion", "zsh"]);
    piped.child.stdout!.destroy();
    const { code, stderr } = await piped.ended;
    expect([code, stderr]).toEqual([0, ""]);
  });
});

describe("the network", () => {
  test("an installation that cannot be reached ends it with 4 and a true sentence", async () => {
    const at = open();
    const closed = ["--url", `http://127.0.0.1:${await freePort()}`, "--token", "t"];
    const [refusing, unknown, doctor] = await Promise.all([
      at.berth(["projects", ...closed, "--json"]),
      at.berth(["projects", "--url", "http://berth.invalid", "--token", "t", "--json"]),
      at.berth(["doctor", ...closed]),
    ]);
    for (const [{ code, stdout, stderr }, why] of [
      [refusing, "ECONNREFUSED"],
      [unknown, /ENOTFOUND|EAI_AGAIN/],
    ] as const) {
      expect([code, stdout]).toEqual([4, ""]);
      const { error } = JSON.parse(stderr.trim().split("\n").at(-1)!);
      expect(error).toMatchObject({ code: "unreachable", next: "berth doctor" });
      expect(error.message).toMatch(why);
    }
    expect([doctor.code, doctor.stdout]).toEqual([
      1,
      expect.stringMatching(/wrong installation +.* cannot be reached/),
    ]);
  });

  test("a clock that is hours off changes nothing: times are the server's", async () => {
    const at = open();
    at.write({ "shift.mjs": "const now = Date.now; Date.now = () => now() + 5 * 3_600_000;" });
    const env = { NODE_OPTIONS: `--import ${join(at.folder, "shift.mjs")}` };
    await signInShifted(at, env);
    const up = await at.berth(["up", machine.folder], { env });
    expect([up.code, up.stderr]).toEqual([0, expect.stringContaining("v1 healthy")]);
    expect(await at.must(["logs", "--since", "30m"], { env, cwd: machine.folder })).toContain(
      "listening on port",
    );
    expect(await at.must(["status", "-d"], { env, cwd: machine.folder })).toMatch(
      /v1 live .* (\d+ s|[12] min) ago/,
    );
    const doctor = await at.berth(["doctor"], { env, cwd: machine.folder });
    expect(doctor.stdout).toMatch(/wrong clock +(?:4 h 59|5 h 0) min ahead of/);
  });

  async function signInShifted(at: Machine, env: Record<string, string>): Promise<void> {
    const login = at.start(["login", world.origin], { env });
    const [, url] = (await login.said(/in a browser on this machine: (\S+)\n/))!;
    await fetch(await consent(world.call, url!, { accountId: world.accountId, role: "editor" }));
    expect((await login.ended).code).toBe(0);
  }

  test("requests go through the proxy that the environment names, and not to this machine itself", async () => {
    const seen: string[] = [];
    const proxy = http.createServer();
    proxy.on("connect", (request, socket) => {
      seen.push(request.url!);
      const { port } = new URL(world.origin);
      const through = connect(Number(port), "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
        socket.pipe(through).pipe(socket);
      });
      for (const each of [socket, through]) each.on("error", () => {});
    });
    const env = { HTTP_PROXY: await listening(proxy) };
    const args = ["projects", "--token", world.ownerToken, "--json"];
    expect(await machine.must(args, { env })).toContain("surroundings");
    expect(seen).toEqual([]);
    const far = await machine.must([...args, "--url", "http://berth.example.com"], {
      env,
      cwd: machine.home,
    });
    expect([far, [...new Set(seen)]]).toEqual([
      expect.stringContaining("surroundings"),
      ["berth.example.com:80"],
    ]);
  });

  test("a proxy that refuses is named as the reason", async () => {
    const proxy = http.createServer();
    proxy.on("connect", (_request, socket) => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n"));
    const env = { HTTP_PROXY: await listening(proxy) };
    const at = open({ BERTH_URL: "http://berth.example.com" });
    const [call, login] = await Promise.all([
      at.berth(["projects", "--token", "t"], { env }),
      at.berth(["login", "http://berth.example.com"], { env }),
    ]);
    for (const { code, stderr } of [call, login])
      expect([code, stderr]).toEqual([
        4,
        expect.stringMatching(
          /Error: http:\/\/berth\.example\.com cannot be reached: Proxy response \(403\).*[^.]\.\n/,
        ),
      ]);
  });

  test("where the user's streams are used up a deployment is followed by asking again and again", async () => {
    const error = { code: "rate_limited", message: "5 streams are open.", requestId: "r", details: [] };
    const url = await between(async (request, pass) => {
      if (request.headers.accept !== "text/event-stream") return pass();
      return { status: 429, text: JSON.stringify({ error }) };
    });
    const at = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
    const where = ["-p", "surroundings", "-s", "web"];
    const [up, logs] = await Promise.all([
      at.berth(["up", machine.folder, ...where]),
      at.berth(["logs", "-f", ...where]),
    ]);
    expect([up.code, up.stderr]).toEqual([0, expect.stringMatching(/Detected a Node.*healthy/s)]);
    expect([logs.code, logs.stderr]).toEqual([1, expect.stringContaining("5 streams are open.")]);
  });

  test("an older server is named where it lacks something; what a newer one adds is ignored or shown as it is", async () => {
    let mode: "older" | "newer" = "older";
    const url = await between(async (request, pass) => {
      if (mode === "older" && request.url!.includes("/compute-usage")) return pass("/v1/nothing");
      const { status, text } = await pass();
      return { status, text: text.replaceAll('"status":"', '"moon":{"phase":1},"status":"tomorrow-') };
    });
    const env = { BERTH_URL: url, BERTH_TOKEN: world.ownerToken };
    const at = open(env);
    const old = await at.berth(["usage"]);
    expect([old.code, old.stderr]).toEqual([1, expect.stringContaining("older than this berth")]);
    mode = "newer";
    expect(await at.must(["status", "-p", "surroundings"])).toMatch(/web +web +tomorrow-/);
  });
});

describe("run --watch", () => {
  const script = "console.log('has ' + process.env.WATCHED); setInterval(() => {}, 1000)";
  const watching = (url: string, command = [process.execPath, "-e", script]) =>
    open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken }).start([
      ...["run", "--watch", "-p", "surroundings", "-e", "production", "-s", "web", "--"],
      ...command,
    ]);
  const isRead = ({ method, url }: http.IncomingMessage) =>
    method === "GET" && url!.endsWith("/resolved-variables");
  const gone = { error: { code: "not_found", message: "Gone for good.", requestId: "r", details: [] } };

  test("follows the variables, and reads none of them again and again", async () => {
    await machine.must(["vars", "set", "WATCHED=one"]);
    let reads = 0;
    const url = await between(async (request) => {
      if (isRead(request) && request.headers.accept !== "text/event-stream") reads++;
      return undefined;
    });
    const nothing = await watching(url, ["no-such-program"]).ended;
    expect([nothing.code, nothing.stderr]).toEqual([1, expect.stringContaining("There is no program")]);
    const running = watching(url);
    await running.said(/has one/);
    await machine.must(["vars", "set", "WATCHED=two"]);
    await running.said(/has two/);
    running.child.kill("SIGTERM");
    expect([(await running.ended).code, reads]).toEqual([143, 0]);
  });

  test("asks where an older server offers no stream; what it can no longer watch keeps running", async () => {
    await machine.must(["vars", "set", "WATCHED=one"]);
    let isGone = false;
    const url = await between(async (request) => {
      if (isRead(request) && isGone) return { status: 404, text: JSON.stringify(gone) };
      if (isRead(request) && request.headers.accept === "text/event-stream")
        return { status: 200, text: '{"data":[],"dangling":[]}' };
      return undefined;
    });
    const running = watching(url);
    await running.said(/has one/);
    await machine.must(["vars", "set", "WATCHED=two"]);
    await running.said(/has two/);
    isGone = true;
    await running.said(/from now on: Gone for good\./);
    expect(running.child.exitCode).toBe(null);
    running.child.kill("SIGTERM");
    expect((await running.ended).code).toBe(143);
  });
});

test("Ctrl-C ends a sign-in whose server does not answer", async () => {
  const silent = http.createServer();
  const asked = once(silent, "request");
  const login = open().start(["login", await listening(silent), "--token", "-"], { input: "token" });
  await asked;
  login.child.kill("SIGINT");
  const { code, stderr } = await login.ended;
  expect([code, stderr]).toEqual([130, "Canceled.\n"]);
});

test("status --watch follows an environment; where an older server offers no stream, it asks", async () => {
  let mode: "older" | "present" | "json" = "present";
  const url = await between(async ({ url: path }, pass) => {
    if (mode === "present" && /\/services(\?|$)/.test(path!)) return { status: 500, text: "" };
    if (mode === "older" && path!.endsWith("/events")) return pass("/v1/nothing");
    return undefined;
  });
  const at = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
  const where = ["-p", "surroundings", "-e", "production"];
  for (mode of ["present", "older", "json"] as const) {
    const asJson = mode === "json";
    const watching = at.start(["status", "--watch", ...(asJson ? ["--json"] : []), ...where]);
    await watching.said(asJson ? /"name":"web"/ : /web +web +/);
    await machine.must(["services", "create", mode]);
    await watching.said(asJson ? /\n.*"name":"json"/ : new RegExp(`\n${mode} +web +`));
    watching.child.kill("SIGINT");
    expect((await watching.ended).code).toBe(130);
    await machine.must(["services", "delete", mode, "--yes"]);
  }
});

test("a moment of an addon that has an archive is backed up, restored and forked", async () => {
  const [oldest, at] = ["2026-11-25T08:00:00Z", "2026-11-25T09:00:00.000Z"];
  const backup = {
    ...{ id: "bkp_then", serviceId: "svc_db", status: "succeeded", trigger: "manual", at, sizeBytes: 2_000 },
    ...{ startedAt: "2026-11-26T08:00:00Z", finishedAt: "2026-11-26T08:01:00Z" },
  };
  const archiveFailure = "The archive takes nothing new at present.";
  const addon = (status = "succeeded") => {
    const backups = { oldestRestorableAt: oldest, archiveFailure, restore: { backup: backup.id, status } };
    return { id: "svc_db", name: "db", type: "postgres", backups };
  };
  const states: string[] = [];
  // As a cluster answers that archives what its addons write.
  const answers: Record<string, () => object> = {
    "GET /db": () => addon(states.pop()),
    "GET /db/backups": () => ({ data: [backup], page: { hasMore: false } }),
    "POST /db/backups": () => backup,
    "POST /db/restore": () => {
      states.push("running");
      return addon("running");
    },
    "POST ": () => addon(),
  };
  const sent: { at?: string }[] = [];
  const url = await between(async ({ method, url: path }, _, body) => {
    const answer = answers[`${method} ${/\/services([^?]*)/.exec(path!)?.[1]}`];
    if (!answer) return undefined;
    if (method === "POST") sent.push(JSON.parse(body));
    return { status: 200, text: JSON.stringify(answer()) };
  });
  const user = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
  const berth = (...args: string[]) => user.berth([...args, "-p", "surroundings", "-e", "production"]);
  const shown = await berth("backups", "db");
  expect(shown.stdout).toMatch(/bkp_then +succeeded +manual +\d+ \w+ ago, as of 2026-11-25T09:00:00\.000Z/);
  expect(shown.stderr).toContain(`since ${oldest} can be restored too: berth backups restore db --at TIME`);
  expect(shown.stderr).toContain(archiveFailure);
  const asked = await berth("backups", "restore", "db", "--at", "2026-11-25T09:00Z");
  expect([asked.code, asked.stderr]).toEqual([
    2,
    expect.stringContaining(`Replace all data of db by that of ${at}? What was written since then is lost.`),
  ]);
  expect(asked.stderr).toContain(`berth backups restore db --at ${at} --yes`);
  for (const args of [["bkp_then", "--at", at], []]) {
    const { code, stderr } = await berth("backups", "restore", "db", ...args, "--yes");
    expect([code, stderr]).toEqual([2, expect.stringContaining("takes either BACKUP or --at TIME")]);
  }
  expect(sent).toEqual([]);

  const made = await berth("backups", "create", "db", "--at", at);
  expect([made.code, made.stdout]).toEqual([0, "bkp_then  2 kB\n"]);
  const restored = await berth("backups", "restore", "db", "--at", at, "--yes");
  expect([restored.code, restored.stderr]).toEqual([0, expect.stringContaining(`db has the data of ${at}`)]);
  const forked = await berth("fork", "db", "--name", "then", "--at", at);
  expect([forked.code, forked.stderr]).toEqual([0, expect.stringContaining("then has the data of bkp_then")]);
  const from = { service: "svc_db", at };
  expect(sent).toEqual([{ at }, { at, confirmImpact: true }, { name: "then", type: "postgres", from }]);
  await berth("backups", "create", "db", "--at", "2h");
  const hours = (Date.now() - Date.parse(sent.at(-1)!.at!)) / 3_600_000;
  expect(hours).toBeCloseTo(2, 1);
});

test("an addon has the version and the storage that are typed, grows as far as is typed, and shows what its server has", async () => {
  const addon = {
    ...{ id: "svc_db", name: "db", type: "postgres", status: "running" },
    config: { size: "small", version: "17", storageGib: 20 },
    backups: { restore: { backup: "bkp_db", status: "succeeded" } },
  };
  const server = { version: "17.9", storageBytes: 20.5 * 1024 ** 3 };
  const fresh = { ...addon, id: "svc_new", name: "new" };
  // As a cluster answers, where they can be chosen.
  const answers: Record<string, object> = {
    "GET ": { data: [fresh, addon], page: { hasMore: false } },
    "GET /db": { ...addon, server },
    "GET /new": fresh,
    "PATCH /db": { ...addon, config: { ...addon.config, storageGib: 40, storageMaxGib: 80, pooler: true } },
    "POST ": addon,
  };
  const sent: object[] = [];
  const url = await between(async ({ method, url: path }, _, body) => {
    const asked = /\/(services|backups)([^?]*)/.exec(path!);
    if (asked?.[1] === "backups")
      return { status: 200, text: JSON.stringify({ type: "redis", serviceName: "lost" }) };
    const answer = answers[`${method} ${asked?.[2]}`];
    if (!answer) return undefined;
    if (body !== "") sent.push(JSON.parse(body));
    return { status: 200, text: JSON.stringify(answer) };
  });
  const user = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
  const berth = (...args: string[]) => user.must([...args, "-p", "surroundings", "-e", "production"]);
  const chosen = ["--version", "17", "--storage", "20", "--storage-max", "50", "--pooler", "on"];
  await berth("services", "create", "db", "--type", "postgres", "--size", "small", ...chosen);
  await berth("fork", "db", "--name", "db18", "--version", "18", "--storage", "30");
  await berth("backups", "recover", "bkp_lost", "--storage", "5");
  await berth("scale", "--storage", "40", "-s", "db");
  const scaled = await user.berth([
    "scale",
    "--storage-max",
    "80",
    "-s",
    "db",
    "-p",
    "surroundings",
    "-e",
    "production",
  ]);
  expect(scaled.stderr).toContain(
    "db runs 1 × small with 40 GiB, and grows by itself to 80 GiB, with a pooler.",
  );
  await berth("scale", "--storage-max", "0", "-s", "db");
  await berth("scale", "--pooler", "off", "-s", "db");
  expect(sent).toEqual([
    {
      ...{ name: "db", type: "postgres" },
      config: { size: "small", version: "17", storageGib: 20, storageMaxGib: 50, pooler: true },
    },
    {
      ...{ name: "db18", type: "postgres", from: { service: "svc_db" } },
      config: { version: "18", storageGib: 30 },
    },
    { name: "lost", type: "redis", from: { backup: "bkp_lost" }, config: { storageGib: 5 } },
    { config: { storageGib: 40 } },
    { config: { storageMaxGib: 80 } },
    { config: { storageMaxGib: 0 } },
    { config: { pooler: false } },
  ]);
  // A server that is being made has not said yet what it is.
  const shown = await berth("addons");
  expect(shown).toMatch(/db +postgres +running +small +17\.9 +20\.5 GiB/);
  expect(shown).toMatch(/new +postgres +running +small +17 +20 GiB/);
});

test("one machine says why addons have no other version and no storage there", async () => {
  await machine.must(["services", "create", "plain", "--type", "postgres"]);
  const create = ["services", "create", "db", "--type", "postgres"];
  for (const [args, sentence] of [
    [[...create, "--version", "17"], "all addons of a type have the version of the server"],
    [[...create, "--storage", "20"], "addons have no volumes"],
    [["scale", "--storage", "20", "-s", "plain"], "addons have no volumes"],
    [["scale", "--storage-max", "20", "-s", "plain"], "addons have no volumes"],
    [["scale", "--pooler", "on", "-s", "plain"], "Poolers need a cluster"],
    [["scale", "--storage", "20", "-s", "web"], "A web service has no storageGib: only addons do."],
  ] as const) {
    const { code, stderr } = await machine.berth([...args]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)]);
  }
  const unit = await machine.berth([...create, "--storage", "20GiB"]);
  expect([unit.code, unit.stderr]).toEqual([
    2,
    expect.stringContaining('--storage is a number, not "20GiB"'),
  ]);
  expect(await machine.must(["addons"])).toMatch(/plain +postgres +\w+ +nano +\d+\.\d+$/m);
});

test("a project with many environments is deleted without a request for each of them", async () => {
  const { id } = await world.must<{ id: string }>("POST", `${world.A}/projects`, { name: "many" });
  const environments = `${world.A}/projects/${id}/environments`;
  for (let n = 1; n <= 25; n++) await world.must("POST", environments, { name: `env-${n}` });
  const asked: string[] = [];
  const url = await between(async (request) => void asked.push(`${request.method} ${request.url}`));
  const user = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
  const { code, stderr } = await user.berth(["projects", "delete", "many", "--yes"]);
  expect([code, stderr]).toEqual([0, expect.stringContaining("with 25 environments, all their services")]);
  expect(asked.filter((line) => line.includes("/services"))).toEqual([]);
});

describe("a server that answers what it wants", () => {
  test("names no file outside the folder in which a backup is saved", async () => {
    let url = "";
    url = await between(async ({ url: path }) => {
      if (path === "/dump") return { status: 200, text: "PGDMP" };
      if (path!.endsWith("/download")) return { status: 200, text: JSON.stringify({ url: `${url}/dump` }) };
      if (!path!.includes("/backups/")) return undefined;
      return { status: 200, text: JSON.stringify({ type: "postgres", serviceName: "../../outside" }) };
    });
    const user = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
    const saved = await user.berth(["backups", "download", "bkp_lost"]);
    expect([saved.code, saved.stderr]).toEqual([0, "  Saved outside-bkp_lost.dump.\n"]);
    expect(readFileSync(join(user.folder, "outside-bkp_lost.dump"), "utf8")).toBe("PGDMP");
  });

  test("has nothing but web pages opened", async () => {
    const at = open({ BROWSER: "touch" });
    const url = await between(async ({ url: path, headers: { host } }, pass) => {
      if (!path!.startsWith("/.well-known/oauth-authorization-server")) return undefined;
      const document = JSON.parse((await pass()).text);
      const own = { issuer: `http://${host}`, authorization_endpoint: "program:opened" };
      return { status: 200, text: JSON.stringify({ ...document, ...own }) };
    });
    const { code, stderr } = await at.berth(["login", url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("is no page that a browser can show")]);
    expect(readdirSync(at.folder)).toEqual([]);
  });
});

describe.skipIf(!hasTerminals)("in a terminal", () => {
  test("it has colours and asks; Ctrl-C in a question changes nothing", async () => {
    await machine.must(["projects", "create", "kept"]);
    const asked = machine.inTerminal(["projects", "delete", "kept"]);
    await asked.said(/Delete it .*\[y\/N\]/);
    asked.child.stdin!.write("\x03");
    const { code, stdout } = await asked.ended;
    expect([code, stdout]).toEqual([130, expect.stringContaining("Nothing was changed.")]);
    const again = machine.inTerminal(["projects", "delete", "kept"]);
    await again.said(/Delete it .*\[y\/N\]/);
    again.child.stdin!.write("y\n");
    expect((await again.ended).stdout).toContain("Deleted the project kept.");
    expect((await machine.inTerminal(["services"]).ended).stdout).toContain("\x1b[2m");
    expect((await machine.berth(["services"])).stdout).not.toContain("\x1b");
  });

  test("a secret is not shown while it is typed", async () => {
    const asked = machine.inTerminal(["vars", "set", "SECRET", "--sensitive"]);
    await asked.said(/Value of SECRET:/);
    asked.child.stdin!.write("hush-hush\r");
    const { code, stdout } = await asked.ended;
    expect([code, stdout.includes("hush-hush")]).toEqual([0, false]);
    expect(await machine.must(["vars", "reveal", "SECRET"])).toBe("hush-hush");
  });

  test("Ctrl-C while it deploys stops watching, and says what continues and how to cancel it", async () => {
    const slow = open({ XDG_CONFIG_HOME: join(machine.home, ".config") });
    slow.write({
      "package.json": '{"scripts":{"build":"node -e \\"setInterval(()=>{},9)\\"","start":"node server.js"}}',
      "server.js": "",
      ".berth.json": readFileSync(join(machine.folder, ".berth.json"), "utf8"),
    });
    const up = slow.inTerminal(["up"]);
    await up.said(/Detected a Node/);
    up.child.stdin!.write("\x03");
    const { code, stdout } = await up.ended;
    expect(code).toBe(130);
    const [, version] = /v(\d+) of web continues without this terminal/.exec(stdout)!;
    const [, line] = new RegExp(`Cancel it: berth (cancel ${version} -s web)`).exec(stdout)!;
    expect((await slow.berth(line!.split(" "))).stderr).toContain(`v${version} of web is canceled.`);
  });

  test("what an app logs cannot act on the terminal", async () => {
    const evil = open({ XDG_CONFIG_HOME: join(machine.home, ".config") });
    evil.write({
      "package.json": '{"scripts":{"start":"node server.js"}}',
      "server.js": `console.log("\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\x1b[0m\\x1b[8mhidden");
        require("http").createServer((q, r) => r.end()).listen(process.env.PORT);`,
      ".berth.json": readFileSync(join(machine.folder, ".berth.json"), "utf8"),
    });
    await evil.must(["up"]);
    const { stdout } = await evil.inTerminal(["logs", "--grep", "title"]).ended;
    expect(stdout).toContain("\x1b[31mred");
    for (const acting of ["\x1b]", "\x1b[2J", "\x1b[8m", "\x07"]) expect(stdout).not.toContain(acting);
  });

  test("nor can what a server, a database or a member is called", async () => {
    const name = "x\x1b]0;title\x07\x1b[2Jy";
    const page = (data: object) => JSON.stringify({ data: [data], page: { hasMore: false } });
    const url = await between(async ({ url: path }) => {
      const text = path!.includes("/members")
        ? page({ userId: "usr_1", displayName: name, role: "reader" })
        : path!.includes("/backups")
          ? page({ id: "bkp_1", status: name, trigger: name, startedAt: new Date(), proofFailure: name })
          : path!.includes("/services")
            ? JSON.stringify({ backups: { oldestRestorableAt: name } })
            : undefined;
      return text === undefined ? undefined : { status: 200, text };
    });
    const user = open({ BERTH_URL: url, BERTH_TOKEN: world.ownerToken });
    const inEnvironment = ["-p", "surroundings", "-e", "production"];
    const asked = user.inTerminal(["members", "remove", "usr_1"]);
    await asked.said(/Remove x.*y from/s);
    asked.child.stdin!.write("n\n");
    const shown = [await asked.ended, await user.inTerminal(["backups", "db", ...inEnvironment]).ended];
    expect(shown[1]!.stdout).toContain("x]0;title[2Jy");
    for (const { stdout } of shown)
      for (const acting of ["\x1b]", "\x1b[2J", "\x07"]) expect(stdout).not.toContain(acting);
  });
});
