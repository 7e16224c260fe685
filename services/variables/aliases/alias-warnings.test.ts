import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

const NAMES = ["A", "B", "C", "D"];
const entries = fc.uniqueArray(
  fc.record({ name: fc.constantFrom(...NAMES), target: fc.constantFrom(undefined, ...NAMES) }),
  { selector: ({ name }) => name, maxLength: 3 },
);
const layers = fc.record({
  services: fc.array(entries, { minLength: 4, maxLength: 4 }),
  environments: fc.array(entries, { minLength: 2, maxLength: 2 }),
  project: entries,
});

type Entries = { name: string; target: string | undefined }[];
const asSet = (list: Entries) =>
  list
    .filter(({ name, target }) => target !== name)
    .map(({ name, target }) => (target ? { name, aliasTarget: target } : { name, value: "x" }));

test("exactly the services whose own set then has a written alias in a cycle are named", async () => {
  let named = 0;
  await fc.assert(
    fc.asyncProperty(layers, async ({ services, environments, project }) => {
      const { accountId, projectId, P, E } = world.scene({});
      const other = { ...E, environmentId: world.tree.environment(projectId) };
      const editor = world.as(accountId);
      const places = services.map((_, index) => {
        const base = index % 2 ? other : E;
        const id = world.tree.service(base.environmentId, `s${index}`, index === 3 ? "postgres" : "worker");
        return { ...base, service: `s${index}`, id };
      });
      const write = (at: object, list: Entries) =>
        editor.batchVariables({ ...P, ...at, set: asSet(list) }).then(
          ({ warnings, data }) => ({ warnings, written: data }),
          () => ({ warnings: [], written: [] }),
        );
      for (const [index, list] of services.entries()) await write(places[index]!, list);
      const bases = [
        ...environments.map((list, index) => [index ? other : E, list] as const),
        [P, project] as const,
      ];
      for (const [at, list] of bases) {
        const { warnings, written } = await write(at, list);
        const expected: string[] = [];
        for (const place of places.slice(0, 3)) {
          if ("environmentId" in at && at.environmentId !== place.environmentId) continue;
          const { dangling } = await editor.getResolvedVariables(place);
          const chain: Partial<typeof place>[] = [place, { ...place, service: undefined }];
          const nearer = await Promise.all(
            ("environmentId" in at ? chain.slice(0, 1) : chain).map((one) =>
              editor.listVariables({ ...P, ...one }),
            ),
          );
          const shadowed = new Set(nearer.flatMap(({ data }) => data.map(({ name }) => name)));
          const round = dangling.filter(({ reason }) => reason === "alias_cycle").map(({ name }) => name);
          const closed = written.some(
            (row) => row.aliasTarget && !shadowed.has(row.name) && round.includes(row.name),
          );
          if (closed) expected.push(place.service);
        }
        named += expected.length;
        expect(warnings.map(({ name }) => name).sort()).toEqual(expected);
      }
    }),
    { numRuns: 30 },
  );
  expect(named).toBeGreaterThan(0);
});

test("of many services the newest 20 are named", async () => {
  const many = Object.fromEntries(Array.from({ length: 25 }, (_, index) => [`s${index}`, "web"]));
  const { accountId, ids, P, E } = world.scene(many);
  const editor = world.as(accountId);
  for (const service of Object.keys(many))
    await editor.createVariable({ ...E, service, name: "B", aliasTarget: "A" });
  const { warnings } = await editor.createVariable({ ...P, name: "A", aliasTarget: "B" });
  const newest = Object.values(ids).sort().reverse().slice(0, 20);
  expect(warnings.map(({ serviceId }) => serviceId)).toEqual(newest);
});
