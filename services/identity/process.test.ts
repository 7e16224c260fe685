import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountService, SessionService } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { hashToken, makeToken } from "../kit/crypto/bearer-token.ts";
import { freePort } from "../kit/process/free-port.ts";
import { nodeEnv } from "../kit/testing/service-process.ts";
import { clientAs, eventually, testDatabase } from "../kit/testing/testing.ts";
import { testEnv } from "./testing.ts";

const PASSWORD = "a-long-first-password";
let database: Awaited<ReturnType<typeof testDatabase>>;
let nats: Awaited<ReturnType<typeof testNats>>;
const children: ChildProcess[] = [];
const ownerToken = makeToken("pat");

beforeAll(async () => {
  [database, nats] = await Promise.all([testDatabase(["identity"]), testNats()]);
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await Promise.all([database.drop(), nats.remove()]);
});

/** Starts identity as an operator does, and gives what it prints. */
function run(env: Record<string, string>) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts")], {
    env: { ...nodeEnv, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  let output = "";
  child.stdout.on("data", (part) => (output += part));
  child.stderr.on("data", (part) => (output += part));
  return { child, output: () => output };
}

const env = (port: number, more: Record<string, string> = {}) =>
  testEnv(database.url("identity"), nats.url, {
    LOG_LEVEL: "debug",
    PORT: String(port),
    BOOTSTRAP_OWNER_EMAIL: "owner@example.com",
    BOOTSTRAP_OWNER_PASSWORD: PASSWORD,
    BOOTSTRAP_OWNER_TOKEN: ownerToken,
    ...more,
  });

const ready = (port: number) =>
  eventually("identity is ready", () =>
    fetch(`http://127.0.0.1:${port}/readyz?exclude=events`).then(
      (answer) => answer.ok,
      () => false,
    ),
  );

async function lookup(port: number, token: string) {
  const gateway = clientAs(InternalService, port, { kind: "service", id: "gateway" });
  return gateway.lookupCaller({ tokenHash: hashToken(token) });
}

test("the process serves, prints no secret, ends at SIGTERM, and what it wrote is there after SIGKILL", async () => {
  const port = await freePort();
  const first = run(env(port));
  await ready(port);
  const session = await clientAs(SessionService, port, { kind: "anonymous", id: "" }).signIn({
    email: "owner@example.com",
    password: PASSWORD,
  });
  first.child.kill("SIGKILL");
  await once(first.child, "exit");

  const second = run(env(port));
  await ready(port);
  const { userId, tokenId, memberships } = await lookup(port, session.token);
  const { accountId } = memberships[0]!;
  const accounts = clientAs(AccountService, port, { id: userId, tokenId, accountId, role: "owner" });
  await eventually("the audit records of before the kill arrive", async () => {
    const { data } = await accounts.listAuditEvents({ accountId });
    return data.some((each) => each.action === "account.create");
  });
  second.child.kill("SIGTERM");
  const [code] = await once(second.child, "exit");
  expect(code).toBe(0);
  for (const text of [first.output(), second.output()])
    for (const secret of [PASSWORD, ownerToken, session.token]) expect(text).not.toContain(secret);
});

test("it starts and accepts writes while NATS is unavailable, and waits for a database that starts later", async () => {
  const [port, databasePort] = [await freePort(), await freePort()];
  const real = new URL(database.url("identity"));
  const late = new URL(real);
  late.port = String(databasePort);
  const nobody = `nats://127.0.0.1:${await freePort()}`;
  const { child, output } = run(env(port, { DATABASE_URL: late.href, NATS_URL: nobody }));
  const sockets = new Set<Socket>();
  let turnedAway = 0;
  const forward = createServer((socket) => {
    if (turnedAway++ < 3) return socket.on("error", () => {}).destroy();
    const upstream = connect(Number(real.port), real.hostname);
    for (const each of [socket, upstream]) sockets.add(each.on("error", () => {}));
    socket.pipe(upstream).pipe(socket);
  });
  await once(forward.listen(databasePort, "127.0.0.1"), "listening");
  await ready(port);
  expect(turnedAway).toBeGreaterThan(3);
  const { userId, tokenId } = await lookup(port, ownerToken);
  const sessions = clientAs(SessionService, port, { id: userId, tokenId });
  const made = await sessions.createToken({ name: "while NATS is away" });
  await lookup(port, made.token);
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  expect([code, output().includes("events wait in the outbox")]).toEqual([0, true]);
  for (const socket of sockets) socket.destroy();
  forward.close();
});

test("an unusable configuration names every mistake, shows no value, and exits with 78", async () => {
  const { child, output } = run({ DATABASE_URL: "mysql://secret-host/x", BOOTSTRAP_OWNER_PASSWORD: "short" });
  const [code] = await once(child, "exit");
  expect(code).toBe(78);
  for (const name of ["DATABASE_URL", "NATS_URL", "INTERNAL_KEYS", "BOOTSTRAP_OWNER_PASSWORD"])
    expect(output()).toContain(name);
  expect(output()).not.toMatch(/secret-host|short\b/);
});
