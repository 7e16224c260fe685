import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook as Verifier } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { type Receiver, startReceiver } from "../../../services/notifications/webhooks/testing.ts";
import { archiveOf, deployArchive, settled } from "../../support/apps.ts";
import { refusal } from "../../support/door.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let receiver: Receiver;

beforeAll(async () => {
  [world, receiver] = await Promise.all([startWorld({ WEBHOOKS_PRIVATE: "on" }), startReceiver()]);
});
afterAll(async () => {
  await receiver?.stop();
  await world?.stop();
});

type Webhook = { id: string; secret: string; events: string[]; enabled: boolean };
type Delivery = { id: string; kind: string; state: string; attempts: number; body?: string };
const hooks = () => `${world.A}/webhooks`;
const create = (path: string, more: object = {}) =>
  world.must<Webhook>("POST", hooks(), { url: receiver.base + path, ...more });

test("a deployment is told to a receiver that verifies as the page says, and is listed and replayed", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/webhooks.md"), "utf8");
  const code = /```js\n([\s\S]*?)```/.exec(page)![1]!;
  const dir = await mkdtemp(join(tmpdir(), "berth-receiver-"));
  await writeFile(join(dir, "receiver.mjs"), code);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const made = await world.must<Webhook>("POST", hooks(), { url, events: ["service.*", "deploy.*"] });
  let output = "";
  const child: ChildProcess = spawn(process.execPath, [join(dir, "receiver.mjs")], {
    env: { PATH: process.env.PATH, PORT: String(port), WEBHOOK_SECRET: made.secret },
  });
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (part) => (output += part));
  try {
    await eventually("it listens", () =>
      fetch(url, { method: "POST", body: "{}" }).then(
        ({ status }) => status === 400,
        () => false,
      ),
    );
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await deployArchive(world, S("web"), await archiveOf("node"));
    await settled(world, S("web"), 1);
    const types = () => [...output.matchAll(/ (\S+)$/gm)].map(([, type]) => type).sort();
    await eventually(`all arrive, but ${output}`, async () => types().length === 3);
    expect(types()).toEqual(["deploy.queued", "deploy.ready", "service.created"]);
    const deliveries = `${hooks()}/${made.id}/deliveries`;
    const delivered = await eventually("all are recorded", async () => {
      const { data } = await world.must<{ data: Delivery[] }>("GET", `${deliveries}?state=delivered`);
      return data.length === 3 && data;
    });
    const { id } = delivered.find(({ kind }) => kind === "deploy.ready")!;
    const { body } = await world.must<Delivery>("GET", `${deliveries}/${id}`);
    expect(JSON.parse(body!)).toMatchObject({
      type: "deploy.ready",
      data: { title: "web is live with version 1", metadata: { service: "web", version: "1" } },
    });
    await world.must("POST", `${deliveries}/${id}/replay`);
    await eventually("it arrives again", async () => output.split(id).length === 3);
    expect(await world.output()).not.toContain(made.secret);
  } finally {
    child.kill();
    await rm(dir, { recursive: true });
  }
});

test("owners alone manage webhooks; nobody sees another account's", async () => {
  const { id } = await create("/roles");
  const [editor, reader] = [await world.member("editor"), await world.member("reader")];
  const other = await world.must<{ id: string }>("POST", "/accounts", { handle: "elsewhere" }, editor.token);
  const routes = (base: string): [string, string, object?][] => [
    ["GET", base],
    ["POST", base, { url: `${receiver.base}/theirs` }],
    ["GET", `${base}/${id}`],
    ["PATCH", `${base}/${id}`, { enabled: false }],
    ["DELETE", `${base}/${id}`],
    ["POST", `${base}/${id}/rotate-secret`],
    ["POST", `${base}/${id}/test`],
    ["GET", `${base}/${id}/deliveries`],
    ["GET", `${base}/${id}/deliveries/whd_1`],
    ["POST", `${base}/${id}/deliveries/whd_1/replay`],
  ];
  for (const { token } of [editor, reader])
    for (const [method, path, body] of routes(hooks()))
      expect((await world.call(method, path, body, { token })).body.error?.code, `${method} ${path}`).toBe(
        "forbidden",
      );
  for (const [method, path, body] of routes(`/accounts/${other.id}/webhooks`).slice(2))
    expect(refusal(await world.call(method, path, body, { token: editor.token })), path).toBe(
      "404 not_found",
    );
  expect(await world.must("GET", `${hooks()}/${id}`)).toMatchObject({ id, enabled: true });
});

test("a webhook is created once by its key, changed, and deleted, with records in the audit log", async () => {
  const headers = { "idempotency-key": "one-webhook" };
  const url = `${receiver.base}/managed`;
  const answers = [];
  for (let time = 0; time < 2; time++)
    answers.push(await world.call<Webhook>("POST", hooks(), { url }, { headers }));
  const [first, second] = answers.map(({ status, body }) => ({ status, body }));
  expect(first!.status).toBe(201);
  expect(second).toEqual(first);
  const made = first!.body;
  expect(made).toMatchObject({ url, events: ["*"], format: "standard", enabled: true });
  const one = `${hooks()}/${made.id}`;
  const rotated = await world.must<Webhook>("POST", `${one}/rotate-secret`);
  await world.must("POST", `${one}/test`);
  const [received] = await receiver.arrived("/managed");
  for (const secret of [made.secret, rotated.secret])
    expect(
      new Verifier(secret).verify(received!.body, received!.headers as Record<string, string>),
    ).toMatchObject({
      type: "webhook.test",
    });
  const changed = { description: "The board", events: ["billing.*"], enabled: false };
  expect(await world.must("PATCH", one, changed)).toMatchObject({ ...changed, disabledReason: "requested" });
  expect(refusal(await world.call("POST", `${one}/test`))).toBe("409 webhook_disabled");
  const listed = await world.must<{ data: Webhook[] }>("GET", hooks());
  expect(listed.data.find(({ id }) => id === made.id)).toMatchObject(changed);
  expect(JSON.stringify(listed)).not.toContain("whsec_");
  await world.must("DELETE", one);
  expect(refusal(await world.call("GET", one))).toBe("404 not_found");
  type Records = { data: { action: string; target: string; metadata: object }[] };
  // Its first page waits for records on their way, but not for ever.
  const records = await eventually("the end is in the audit log", async () => {
    const { data } = await world.must<Records>("GET", `${world.A}/audit-events?limit=100`);
    const found = data.filter(({ target }) => target === made.id).reverse();
    return found.some(({ action }) => action === "webhook.delete") && found;
  });
  expect(records.map(({ action }) => action)).toEqual([
    "webhook.create",
    "webhook.rotate_secret",
    "webhook.update",
    "webhook.delete",
  ]);
  expect(JSON.stringify(records)).not.toContain("/managed");
});

test.each([
  ["no URL", { url: "nonsense" }, "422 invalid_url"],
  ["an empty URL", { url: "" }, "422 required"],
  ["a URL that is too long", { url: `https://example.com/${"a".repeat(2_048)}` }, "422 too_long"],
  ["a URL with a password", { url: "https://user:password@example.com/" }, "422 invalid_url"],
  ["an address of metadata", { url: "http://169.254.169.254/latest/meta-data" }, "422 invalid_url"],
  ["an unknown kind", { events: ["deploy.unknown"] }, "422 unknown_kind"],
  ["a kind that concerns one user", { events: ["security.token_created"] }, "422 unknown_kind"],
  ["the kind of tests", { events: ["webhook.test"] }, "422 unknown_kind"],
  ["an unknown format", { format: "teams" }, "422 invalid_choice"],
  ["a description with invisible characters", { description: "a\u202Eb" }, "422 invalid_text"],
])("%s is refused", async (_what, wrong, answer) => {
  const body = { url: `${receiver.base}/x`, ...wrong };
  expect(refusal(await world.call("POST", hooks(), body))).toBe(answer);
});

describe("where private networks are not allowed", () => {
  let strict: World;
  beforeAll(async () => {
    strict = await startWorld();
  });
  afterAll(() => strict?.stop());

  test.each([
    "http://example.com/",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://10.0.0.1/",
    "https://[::1]/",
  ])("%s is refused, also as a change", async (url) => {
    const path = `${strict.A}/webhooks`;
    expect(refusal(await strict.call("POST", path, { url }))).toBe("422 invalid_url");
    const made = await strict.must<Webhook>("POST", path, { url: "https://hooks.example.com/" });
    expect(refusal(await strict.call("PATCH", `${path}/${made.id}`, { url }))).toBe("422 invalid_url");
    await strict.must("DELETE", `${path}/${made.id}`);
  });
});
