import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createPool, type Pool } from "../../../services/kit/postgres/db.ts";
import { openProxy, type TcpProxy } from "../../../services/kit/testing/proxy.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, open, settled } from "../../support/apps.ts";
import { startWorld, type World } from "../../support/world.ts";

type Deployment = { status: string; warnings: { stage: string; code: string; message: string }[] };

let proxy: TcpProxy;
let world: World;
let deployer: Pool;

beforeAll(async () => {
  const server = inject("postgresAdminUrl");
  proxy = await openProxy(new URL(server));
  world = await startWorld({ ADDON_POSTGRES_URL: proxy.of(server) });
  deployer = createPool(world.database.url("deployer"));
});
afterAll(async () => {
  await deployer?.end();
  await world?.stop();
  proxy?.shut();
});

/** A service whose greeting is the password of an addon that was made a moment before. */
async function greetingService() {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  const { id } = await world.must<{ id: string }>("POST", `${E}/services`, { name: "web", type: "web" });
  const connection = { service: "db", key: "PASSWORD" };
  await world.must("POST", `${E}/variables`, { name: "GREETING", connection });
  await deployArchive(world, S("web"), await archiveOf("node"));
  const version = () => world.must<Deployment>("GET", `${S("web")}/deployments/1`);
  const waiting = await eventually("it waits for the addon", async () => {
    const found = await version();
    return found.warnings.some(({ code }) => code === "waiting_for_addon") && found;
  });
  expect(waiting).toMatchObject({ status: "built", warnings: [{ stage: "resolve" }] });
  expect(waiting.warnings[0]!.message).toMatch(/db/);
  const greeting = async () => {
    const { url } = await world.must<{ url?: string }>("GET", S("web"));
    return url ? (await open(url)).body.split("\n")[0] : undefined;
  };
  const password = async () =>
    (await world.must<{ value: string }>("POST", `${E}/variables/GREETING/reveal`)).value;
  return { id, E, S, version, greeting, password };
}

test("a deploy right after making an addon waits for it, and its first release is connected", async () => {
  proxy.shut();
  const { S, version, greeting, password } = await greetingService();
  await proxy.open();
  await settled(world, S("web"), 1);
  expect(await version()).toMatchObject({ status: "applied", warnings: [] });
  expect(await greeting()).toBe(await password());
});

test("a deploy that waits for an addon goes on at once without it when the addon is deleted", async () => {
  proxy.shut();
  const { id, E, S, version } = await greetingService();
  // The wait that ends by itself is put off.
  await deployer.query("update work set next_at = now() + interval '1 hour' where service_id = $1", [id]);
  await world.must("DELETE", `${E}/services/db`);
  await settled(world, S("web"), 1);
  expect(await version()).toMatchObject({ status: "applied", warnings: [{ stage: "resolve" }] });
  await proxy.open();
});

test("an addon that does not come in time is left out with a warning, and connected once it is there", async () => {
  proxy.shut();
  const { id, S, version, greeting, password } = await greetingService();
  await deployer.query(
    `with late as (update deployments set awaits_until = now() where service_id = $1)
     update work set next_at = now() where service_id = $1`,
    [id],
  );
  await settled(world, S("web"), 1);
  expect(await version()).toMatchObject({
    status: "applied",
    warnings: [{ stage: "resolve", code: "service_not_ready" }],
  });
  await proxy.open();
  await eventually("the release is connected", async () => {
    const said = await greeting();
    return said !== undefined && said === (await password().catch(() => undefined));
  });
});
