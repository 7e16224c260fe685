import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Deployment, settled } from "../support/apps.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world?.stop());

test("a postgres addon resolves through a connection to a URL that works", async () => {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${E}/variables`, {
    name: "DATABASE_URL",
    connection: { service: "db", key: "URL" },
  });
  const revealed = await eventually("the connection resolves", async () => {
    const answer = await world.call<{ value: string }>("POST", `${E}/variables/DATABASE_URL/reveal`);
    return answer.status === 200 && answer.body;
  });
  const client = new pg.Client({ connectionString: revealed.value });
  await client.connect();
  expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  await client.end();
  type Resolved = { data: { name: string; sensitive: boolean; value?: string }[] };
  const resolved = await world.must<Resolved>("GET", `${S("web")}/resolved-variables`);
  expect(resolved.data).toMatchObject([{ name: "DATABASE_URL", sensitive: true }]);
  expect(resolved.data[0]).not.toHaveProperty("value");
  expect((await world.call("GET", `${S("db")}/resolved-variables`)).status).toBe(404);
});

test("an image deployment fails here with a sentence that says a cluster is needed", async () => {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const { version } = await world.must<Deployment>("POST", `${S("web")}/deploy`, {
    image: "docker.io/library/nginx:1",
  });
  const failed = await settled(world, S("web"), version);
  expect(failed).toMatchObject({ status: "failed", errors: [{ stage: "apply" }] });
  expect(failed.errors[0]!.message).toMatch(/cluster/);
});
