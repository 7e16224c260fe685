import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createPool, type Pool, type Tx } from "../../services/kit/postgres/db.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let pool: Pool;
let holder: Tx;

beforeAll(async () => {
  world = await startWorld();
  pool = createPool(world.database.url("variables"));
});
afterAll(async () => {
  await pool?.end();
  await world?.stop();
});

// Variables hears of nothing while its inbox is held: the time between a deletion and its event becomes as long
// as a test likes.
beforeEach(async () => {
  holder = await pool.connect();
});
afterEach(async () => {
  await goOn();
  holder.release();
});
const holdEvents = async () => {
  await holder.query("begin");
  await holder.query("lock table inbox in access exclusive mode");
};
const goOn = () => holder.query("rollback");

/** Waits until the event of a scope's deletion has arrived. */
const certain = (id: string) =>
  eventually("its event has arrived", async () => {
    const found = await pool.query("select from doubts where scope_id = $1", [id]);
    return found.rowCount === 0;
  });

type Environment = Awaited<ReturnType<World["environment"]>>;
type Impact = { total: number; services: { name: string }[] };

/** An environment whose scopes variables knows, with a variable in each of them. */
async function furnished(): Promise<Environment> {
  const made = await world.environment();
  await world.must("POST", `${made.E}/services`, { name: "web", type: "web" });
  for (const base of [made.P, made.E, made.S("web")])
    await world.must("POST", `${base}/variables`, { name: "A", value: "1" });
  return made;
}

/** Everything that reads and writes the variables of one scope. */
const usesOf = (base: string): [string, string, unknown?][] => [
  ["GET", `${base}/variables`],
  ["GET", `${base}/variables/A`],
  ["POST", `${base}/variables/A/reveal`],
  ["POST", `${base}/variables`, { name: "B", value: "2" }],
  ["POST", `${base}/variables/batch`, { set: [{ name: "A", value: "3" }] }],
  ["POST", `${base}/variables/batch`, { unset: ["A"] }],
  ["PATCH", `${base}/variables/A`, { value: "4" }],
  ["DELETE", `${base}/variables/A`, { confirmImpact: true }],
];
const usesOfService = (S: string): [string, string, unknown?][] => [
  ...usesOf(S),
  ["GET", `${S}/resolved-variables`],
  ["POST", `${S}/resolved-variables/reveal`],
];
const usesOfEnvironment = (E: string): [string, string, unknown?][] => [
  ["GET", E],
  ["GET", `${E}/services`],
  ["POST", `${E}/services`, { name: "late", type: "web" }],
  ["POST", `${E}/apply`, {}],
  ["GET", `${E}/variables/A/impact`],
  ...usesOf(E),
  ...usesOfService(`${E}/services/web`),
  ["GET", `${E}/services/web`],
  ["PATCH", `${E}/services/web`, { config: { replicas: 2 } }],
  ["DELETE", `${E}/services/web`],
  ["POST", `${E}/services/web/deploy`, { image: "shop/web:1" }],
  ["POST", `${E}/services/web/deploy`, { image: "shop/web:1", dryRun: true }],
  ["POST", `${E}/services/web/uploads`, {}],
  ["POST", `${E}/services/web/deploy-from-archive`, { archiveRef: "arc_x" }],
  ["POST", `${E}/services/web/rollback`, { version: 1 }],
  ["POST", `${E}/services/web/restart`, {}],
  ["GET", `${E}/services/web/deployments`],
  ["GET", `${E}/services/web/deployments/1`],
  ["GET", `${E}/services/web/deployments/1/build-logs`],
  ["POST", `${E}/services/web/deployments/1/cancel`, {}],
  ["GET", `${E}/services/web/logs`],
];
const usesOfProject = (P: string, E: string): [string, string, unknown?][] => [
  ["GET", P],
  ["PATCH", P, { name: "other" }],
  ["GET", `${P}/environments`],
  ["POST", `${P}/environments`, { name: "late" }],
  ["GET", `${P}/variables/A/impact`],
  ...usesOf(P),
  ...usesOfEnvironment(E),
];

const answersOf = async (uses: [string, string, unknown?][]) => {
  const said: string[] = [];
  for (const [method, path, body] of uses)
    said.push(`${method} ${path} ${refusal(await world.call(method, path, body))}`);
  return said;
};
const allGone = (uses: [string, string, unknown?][]) =>
  uses.map(([method, path]) => `${method} ${path} 404 not_found`);

const levels: [string, (made: Environment) => string, (made: Environment) => [string, string, unknown?][]][] =
  [
    ["a project", ({ P }) => P, ({ P, E }) => usesOfProject(P, E)],
    ["an environment", ({ E }) => E, ({ E }) => usesOfEnvironment(E)],
    ["a service", ({ S }) => S("web"), ({ S }) => usesOfService(S("web"))],
  ];

test.each(levels)(
  "once the deletion of %s is answered, nothing below it is read or written, however late its event",
  async (_, base, uses) => {
    const made = await furnished();
    const { id } = await world.must<{ id: string }>("GET", base(made));
    await holdEvents();
    expect((await world.call("DELETE", base(made), { confirmImpact: true })).status).toBe(204);
    expect(await answersOf(uses(made))).toEqual(allGone(uses(made)));
    await goOn();
    await certain(id);
    expect(await answersOf(uses(made))).toEqual(allGone(uses(made)));
  },
);

test("a service made anew under the name of a deleted one is another one at once", async () => {
  const { E, S } = await furnished();
  const before = await world.must<{ id: string }>("GET", S("web"));
  await holdEvents();
  await world.must("DELETE", S("web"));
  await eventually("the name is free", async () => {
    const answer = await world.call("POST", `${E}/services`, { name: "web", type: "web" });
    return answer.status === 201;
  });
  expect(await world.must("GET", `${S("web")}/variables`)).toMatchObject({ data: [] });
  await world.must("POST", `${S("web")}/variables`, { name: "NEW", value: "1" });
  await goOn();
  await certain(before.id);
  const left = await world.must<{ data: { name: string }[] }>("GET", `${S("web")}/variables`);
  expect(left.data.map(({ name }) => name)).toEqual(["NEW"]);
});

test("a deletion that is refused takes nothing away", async () => {
  const { E, P, S } = await furnished();
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await eventually("the addon is live", async () => {
    const { status } = await world.must<{ status: string }>("GET", S("db"));
    return status === "running";
  });
  for (const base of [P, E, S("db")])
    expect(refusal(await world.call("DELETE", base))).toBe("409 impact_confirmation_required");
  for (const base of [P, E, S("web")])
    expect((await world.must<{ value: string }>("GET", `${base}/variables/A`)).value).toBe("1");
});

test("impact and delete guard count every service made before, and none that was deleted", async () => {
  const { E, P, S } = await furnished();
  await world.must("DELETE", `${E}/variables/A?confirmImpact=true`);
  await holdEvents();
  const impact = async () => {
    const told = await world.must<Impact>("GET", `${P}/variables/A/impact`);
    const guard = await world.call<{ error: { impact: Impact } }>("DELETE", `${P}/variables/A`);
    const batch = await world.call<{ error: { impact: Impact } }>("POST", `${P}/variables/batch`, {
      unset: ["A"],
    });
    for (const refused of [guard, batch]) {
      expect(refusal(refused)).toBe("409 impact_confirmation_required");
      expect(refused.body.error.impact).toEqual(told);
    }
    expect(told.total).toBe(told.services.length);
    return told.services.map(({ name }) => name).sort();
  };
  expect(await impact()).toEqual([]); // web has a variable of its own
  for (const [name, type] of [
    ["api", "web"],
    ["jobs", "worker"],
    ["db", "postgres"],
  ])
    await world.must("POST", `${E}/services`, { name, type });
  expect(await impact()).toEqual(["api", "jobs"]);
  await world.must("DELETE", S("api"));
  expect(await impact()).toEqual(["jobs"]);
  const other = await world.must<{ id: string }>("POST", `${P}/environments`, { name: "test" });
  await world.must("POST", `${P}/environments/${other.id}/services`, { name: "api", type: "web" });
  expect(await impact()).toEqual(["api", "jobs"]);
  await world.must("DELETE", `${P}/environments/${other.id}`);
  expect(await impact()).toEqual(["jobs"]);
});
