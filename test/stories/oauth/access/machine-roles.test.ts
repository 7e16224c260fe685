import { readFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, bringIn } from "../../../support/door.ts";
import { connectApp } from "../../../support/oauth/application.ts";
import { startWorld, type World } from "../../../support/world.ts";

const RANK = { reader: 1, editor: 2, owner: 3 };
type Role = keyof typeof RANK;

type Operation = {
  name: string;
  method: string;
  path: string;
  /** The role in the account that a machine needs, or `signed in`, as the document says. */
  role: string;
  usersOnly: boolean;
};

const document = JSON.parse(
  await readFile(join(import.meta.dirname, "../../../../gateway/openapi.json"), "utf8"),
) as { paths: Record<string, Record<string, Documented>> };
type Documented = {
  operationId?: string;
  "x-role"?: string;
  "x-machine-role"?: string;
  responses?: Record<string, { "x-codes"?: { code: string }[] }>;
};

/** Every operation of the API that takes a token. */
const operations: Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, { "x-role": any, "x-machine-role": role = any, responses }]) => {
    if (role === undefined || role === "none") return [];
    const usersOnly = !!responses?.["403"]?.["x-codes"]?.some(
      ({ code }) => code === "machine_actor_forbidden",
    );
    return [{ name: `${method.toUpperCase()} ${path}`, method: method.toUpperCase(), path, role, usersOnly }];
  }),
);

/** An application's token, with the lower of the role that was granted and the one that its user has now. */
type Machine = { token: string; granted: Role; has: Role | "none"; may: number; elsewhere: string };

let world: World;
const machines: Machine[] = [];

beforeAll(async () => {
  world = await startWorld();
  for (const granted of ["reader", "editor"] as const)
    for (const has of ["none", "reader", "editor", "owner"] as const)
      machines.push(await machineOf(granted, has));
});
afterAll(() => world?.stop());

/** Lets an application in as a user who is then given another role, or removed, and who owns an account elsewhere. */
async function machineOf(granted: "reader" | "editor", has: Role | "none"): Promise<Machine> {
  const { call, must, accountId, A } = world;
  const user = await bringIn(call, A, "editor");
  const elsewhere = await must<{ id: string }>(
    "POST",
    "/accounts",
    { handle: `own-${machines.length}` },
    user.token,
  );
  const app = await connectApp(world, { token: user.token, accountId, role: granted });
  const member = `${A}/members/${user.userId}`;
  if (has === "none") await must("DELETE", member);
  else await must("PATCH", member, { role: has });
  const may = has === "none" ? 0 : Math.min(RANK[granted], RANK[has]);
  return { token: app.accessToken, granted, has, may, elsewhere: elsewhere.id };
}

const bodies = fc.oneof(
  fc.constant({}),
  fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue(), { maxKeys: 3 }),
);
const names = fc.stringMatching(/^[a-z][a-z0-9_-]{0,12}$/);

async function send(
  { method, path }: Operation,
  token: string,
  accountId: string,
  name: string,
  body: object,
) {
  const url = path.replace("{accountId}", accountId).replaceAll(/\{\w+\}/g, name);
  return world.call(method, url, method === "GET" ? undefined : body, { token });
}

const code = ({ body }: Answer) => body.error?.code;

test("the document names operations of every kind", () => {
  const kinds = new Set(operations.map(({ role, usersOnly }) => `${role}${usersOnly ? ", users only" : ""}`));
  expect([...kinds].sort()).toEqual(
    expect.arrayContaining(["editor", "owner", "owner, users only", "reader", "signed in, users only"]),
  );
});

describe.each(operations.filter(({ usersOnly }) => usersOnly))("$name", (operation) => {
  test("is for users only: every machine is refused", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...machines),
        fc.boolean(),
        names,
        bodies,
        async (machine, own, name, body) => {
          const answer = await send(
            operation,
            machine.token,
            own ? world.accountId : machine.elsewhere,
            name,
            body,
          );
          expect([answer.status, code(answer)]).toEqual([403, "machine_actor_forbidden"]);
        },
      ),
      { numRuns: 4 },
    );
  });
});

describe.each(operations.filter(({ role, usersOnly }) => role in RANK && !usersOnly))(
  "$name",
  (operation) => {
    const needed = RANK[operation.role as Role];

    test("admits a machine exactly up to the lower of its grant and its user's role, in its own account", async () => {
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...machines), names, bodies, async (machine, name, body) => {
          const answer = await send(operation, machine.token, world.accountId, name, body);
          if (machine.may < needed) expect([answer.status, code(answer)]).toEqual([403, "forbidden"]);
          else expect([401, 403]).not.toContain(answer.status);
          expect(answer.status).toBeLessThan(500);
        }),
        { numRuns: 8 },
      );
    });

    test("admits no machine to another account, not even one that its user owns", async () => {
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...machines), fc.boolean(), names, async (machine, owned, name) => {
          const answer = await send(
            operation,
            machine.token,
            owned ? machine.elsewhere : "acc_nowhere",
            name,
            {},
          );
          expect([answer.status, code(answer)]).toEqual([403, "forbidden"]);
        }),
        { numRuns: 3 },
      );
    });
  },
);

test("without an account in the path, a machine sees the account of its grant at most", async () => {
  const rest = operations.filter(({ role, usersOnly }) => !(role in RANK) && !usersOnly);
  expect(rest.map(({ name }) => name)).toEqual(["GET /accounts"]);
  for (const { token, may } of machines) {
    const { data } = await world.must<{ data: { id: string; myRole: Role }[] }>(
      "GET",
      "/accounts",
      undefined,
      token,
    );
    expect(data.map(({ id, myRole }) => [id, RANK[myRole]])).toEqual(may ? [[world.accountId, may]] : []);
  }
});

test("what a machine did is recorded with its kind, its user and its grant", async () => {
  const user = await bringIn(world.call, world.A, "editor");
  const app = await connectApp(world, { token: user.token, accountId: world.accountId, role: "editor" });
  await world.must("POST", `${world.A}/projects`, { name: "by-machine" }, app.accessToken);
  const grantId = claimsOf(app.accessToken).grant_id;
  const read = () =>
    world.must<{ data: { actor: object }[] }>("GET", `${world.A}/audit-events?action=project.create&limit=1`);
  await expect
    .poll(async () => (await read()).data[0]?.actor)
    .toEqual({
      kind: "machine",
      id: user.userId,
      tokenId: grantId,
    });
});

function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
}
