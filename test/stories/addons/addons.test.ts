import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, open, settled } from "../../support/apps.ts";
import { refusal } from "../../support/door.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world?.stop());

type Service = {
  status: string;
  statusMessage?: string;
  liveVersion?: number;
  credentialsRotatedAt?: string;
};
type Resolved = { data: { name: string }[]; dangling: { name: string; reason: string }[] };

const found = inject("redisProgram") !== undefined;

const secret = async (E: string, name: string) => {
  const answer = await world.call<{ value: string }>("POST", `${E}/variables/${name}/reveal`);
  return answer.status === 200 ? answer.body.value : undefined;
};

test("a rotated password reaches the service that is connected to the addon, by itself", async () => {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${E}/variables`, {
    name: "DATABASE_URL",
    connection: { service: "db", key: "URL" },
  });
  await world.must("POST", `${E}/variables`, {
    name: "GREETING",
    connection: { service: "db", key: "PASSWORD" },
  });
  const old = await eventually("the connection resolves", () => secret(E, "DATABASE_URL"));
  await deployArchive(world, S("web"), await archiveOf("node"));
  await settled(world, S("web"), 1);
  const greeting = async () => {
    const { url } = await world.must<{ url: string }>("GET", S("web"));
    return (await open(url)).body.split("\n")[0];
  };
  expect(await greeting()).toBe(new URL(old).password);

  const answer = await world.call<Service>("POST", `${S("db")}/rotate-credentials`, {});
  expect([answer.status, answer.body.status]).toEqual([202, "running"]);
  const now = await eventually("the connection resolves to a new password", async () => {
    const value = await secret(E, "DATABASE_URL");
    return value !== old && value;
  });
  const client = new pg.Client({ connectionString: now });
  await client.connect();
  await client.end();
  await eventually("the app runs with it", async () => (await greeting()) === new URL(now).password);
  expect((await world.must<Service>("GET", S("db"))).credentialsRotatedAt).toBeDefined();
  expect((await world.must<Service>("GET", S("web"))).liveVersion).toBe(1);
  expect(await world.output()).not.toContain(new URL(now).password);

  expect(refusal(await world.call("POST", `${S("web")}/rotate-credentials`, {}))).toBe("422 not_addon");
  const { token } = await world.member("reader");
  const reader = await world.call("POST", `${S("db")}/rotate-credentials`, {}, { token });
  expect(refusal(reader)).toBe("403 forbidden");
  const audit = await eventually("the rotation is in the audit log", async () => {
    const { data } = await world.must<{ data: { action: string }[] }>("GET", `${world.A}/audit-events`);
    return data.find((one) => one.action === "service.rotate_credentials");
  });
  expect(audit).toMatchObject({ metadata: { name: "db" } });
});

test("on one machine an addon has no pooler, and the key for one leads to its server", async () => {
  const { E, S } = await world.environment();
  const create = (config: object) =>
    world.call("POST", `${E}/services`, { name: "db", type: "postgres", config });
  expect(refusal(await create({ pooler: true }))).toBe("422 not_supported_here");
  expect((await create({ pooler: false })).status).toBe(201);
  for (const key of ["URL", "POOLED_URL"])
    await world.must("POST", `${E}/variables`, { name: key, connection: { service: "db", key } });
  const url = await eventually("the connection resolves", () => secret(E, "POOLED_URL"));
  expect(url).toBe(await secret(E, "URL"));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.end();
  const { data } = await world.must<{ data: { name: string; sensitive: boolean; value?: string }[] }>(
    "GET",
    `${E}/variables`,
  );
  const shown = data.find(({ name }) => name === "POOLED_URL");
  expect([shown?.sensitive, shown?.value]).toEqual([true, undefined]);

  const patch = (pooler: boolean) => world.call("PATCH", S("db"), { config: { pooler } });
  expect(refusal(await patch(true))).toBe("422 not_supported_here");
  const kept = await patch(false);
  expect([kept.status, kept.body]).toMatchObject([
    200,
    { capabilities: { pooler: false, poolerReason: expect.stringContaining("need a cluster") } },
  ]);
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const web = await world.call("PATCH", S("web"), { config: { pooler: true } });
  expect(refusal(web)).toBe("422 not_for_type");
});

test.skipIf(!found)(
  "a redis addon resolves through a connection, needs confirmation to be deleted, and then dangles",
  async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "cache", type: "redis" });
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await world.must("POST", `${E}/variables`, {
      name: "REDIS_URL",
      connection: { service: "cache", key: "URL" },
    });
    const url = await eventually("the connection resolves", () => secret(E, "REDIS_URL"));
    expect(url).toMatch(/^redis:\/\/:[\w-]+@127\.0\.0\.1:\d+$/);
    expect(refusal(await world.call("DELETE", S("cache")))).toBe("409 impact_confirmation_required");
    expect((await world.call("DELETE", S("cache"), { confirmImpact: true })).status).toBe(204);
    const left = await eventually("the keys are withdrawn", async () => {
      const set = await world.must<Resolved>("GET", `${S("web")}/resolved-variables`);
      return set.dangling.length > 0 && set;
    });
    expect(left.data).toEqual([]);
    expect(left.dangling).toMatchObject([{ name: "REDIS_URL", reason: "service_not_found" }]);
  },
);
