import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveOf as tarOf } from "../../../services/deployer/testing/testing.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { deployArchive, settled } from "../../support/apps.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
type Person = { userId: string; email: string; password: string; token: string };
let [owner, editor, reader]: Person[] = [];

beforeAll(async () => {
  world = await startWorld();
  owner = await world.member("owner");
  editor = await world.member("editor");
  reader = await world.member("reader");
});
afterAll(() => world.stop());

type Notification = { id: string; kind: string; title: string; body: string };

/** Returns what is in somebody's feed of some kinds, oldest first. */
async function feed({ token }: { token: string }, ...kinds: string[]): Promise<Notification[]> {
  const path = "/notifications?limit=100";
  const { data } = await world.must<{ data: Notification[] }>("GET", path, undefined, token);
  return data.filter(({ kind }) => kinds.includes(kind)).reverse();
}
const titles = async (person: { token: string }, ...kinds: string[]) =>
  (await feed(person, ...kinds)).map(({ title }) => title);
/** Waits until somebody's feed of these kinds has so many. */
const told = (person: { token: string }, count: number, ...kinds: string[]) =>
  eventually(`${count} of ${kinds}`, async () => {
    const found = await titles(person, ...kinds);
    return found.length >= count && found;
  });

const first = () => ({ token: world.ownerToken });

test("members: those who own the account learn who comes and goes, and each what concerns them", async () => {
  const nameOf = ({ email }: Person) => email.split("@")[0]!;
  const [before] = [await told(first(), 3, "member.joined")];
  expect(before.map((title) => title.split(" ")[0])).toEqual([owner!, editor!, reader!].map(nameOf));
  expect(await told(owner!, 2, "member.joined")).toHaveLength(2);
  const member = `${world.A}/members/${reader!.userId}`;
  for (const role of ["editor", "reader", "editor"]) await world.must("PATCH", member, { role });
  const changes = await told(reader!, 3, "member.role_changed");
  expect(changes.map((title) => title.split(" of ")[0])).toEqual([
    "You are now an editor",
    "You are now a reader",
    "You are now an editor",
  ]);
  await world.must("DELETE", member, undefined, owner!.token);
  expect(await told(reader!, 1, "member.removed")).toHaveLength(1);
  expect(await told(first(), 1, "member.left")).toEqual([
    expect.stringMatching(new RegExp(`^${nameOf(owner!)} removed ${nameOf(reader!)} from `)),
  ]);
  const invitation = { email: reader!.email, role: "reader" };
  const { id } = await world.must<{ id: string }>("POST", `${world.A}/members`, invitation);
  const [invited] = await told(reader!, 1, "member.invited");
  expect(invited).toMatch(/^You are invited to /);
  await world.must("POST", `/me/invitations/${id}/accept`, {}, reader!.token);
  expect(await told(first(), 4, "member.joined")).toHaveLength(4);
  expect(await titles(owner!, "member.left", "member.removed")).toEqual([]);
  expect(await titles(editor!, "member.joined", "member.left")).toEqual([]);
});

test("an account that somebody creates tells nobody; tokens and passwords tell their user", async () => {
  await world.must("POST", "/accounts", { handle: "of-the-editor" }, editor!.token);
  const { id } = await world.must<{ id: string }>("POST", "/me/tokens", { name: "ci" }, editor!.token);
  await world.must("DELETE", `/me/tokens/${id}`, undefined, editor!.token);
  const change = { current: editor!.password, new: "another-long-password" };
  await world.must("PUT", "/me/password", change, editor!.token);
  const kinds = [
    "member.joined",
    "security.token_created",
    "security.token_revoked",
    "security.password_changed",
  ];
  const found = await told(editor!, 3, ...kinds);
  expect(found).toEqual(["API token created: ci", "API token revoked: ci", "Your password was changed"]);
  expect(await titles(editor!, "security.sign_in_new_device")).toEqual([]);
});

test("what is revealed is told to owners, but not to who did it", async () => {
  const { P } = await world.environment();
  const choice = { kind: "security.variable_revealed", channel: "in_app", frequency: "daily" };
  const own = await world.must("PUT", "/me/notification-prefs", choice);
  expect(own).toMatchObject({ ...choice, category: "member", forceEmail: true });
  await world.must("POST", `${P}/variables`, { name: "PIN", value: "marker-4711", sensitive: true });
  await world.must("POST", `${P}/variables/PIN/reveal`, {}, owner!.token);
  expect(await told(first(), 1, choice.kind)).toEqual([expect.stringContaining("revealed PIN")]);
  expect(await titles(owner!, choice.kind)).toEqual([]);
  expect(JSON.stringify(await feed(first(), choice.kind))).not.toContain("marker-4711");
});

test("a service that falls ill, does without a variable, recovers and is deleted", async () => {
  const { E, P, S } = await world.environment("shop");
  await world.must("POST", `${E}/services`, { name: "web", type: "web", config: { minReadySeconds: 0 } });
  await world.must("POST", `${P}/variables`, { name: "MODE", value: "well" });
  await world.must("POST", `${E}/variables`, { name: "OTHER", aliasTarget: "MODE" });
  const app = `if (process.env.MODE !== "well") process.exit(7);
    require("node:http").createServer((_, to) => to.end("ok")).listen(process.env.PORT);`;
  const source = await tarOf({
    "package.json": JSON.stringify({ scripts: { start: "node app.js" } }),
    "app.js": app,
  });
  await deployArchive(world, S("web"), source);
  await settled(world, S("web"), 1);
  expect(await told(editor!, 1, "deploy.ready")).toEqual(["web is live with version 1"]);

  await world.must("DELETE", `${P}/variables/MODE?confirmImpact=true`);
  expect(await told(editor!, 1, "deploy.unhealthy")).toEqual(["web is unhealthy"]);
  expect(await told(editor!, 1, "deploy.config_dangling")).toEqual(["OTHER of web does not resolve"]);
  await world.must("POST", `${P}/variables`, { name: "MODE", value: "well" });
  expect(await told(editor!, 1, "deploy.recovered")).toEqual(["web has recovered"]);
  await world.must("PATCH", S("web"), { config: { autoApply: false } });
  await world.must("POST", `${E}/variables`, { name: "GHOST", aliasTarget: "NOBODY" });
  const dangling = await told(editor!, 2, "deploy.config_dangling");
  expect(dangling[1]).toBe("GHOST of web does not resolve");

  await world.must("DELETE", `${S("web")}?confirmImpact=true`);
  const deleted = ["Service web of shop, production was deleted"];
  expect(await told(owner!, 1, "deletion.completed")).toEqual(deleted);
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await world.must("DELETE", `${P}?confirmImpact=true`);
  expect(await told(owner!, 2, "deletion.completed")).toEqual([...deleted, "Project shop was deleted"]);
  expect(await titles(editor!, "deletion.completed")).toEqual([]);
  expect(
    await titles(editor!, "deploy.unhealthy", "deploy.recovered", "deploy.config_dangling"),
  ).toHaveLength(4);
  expect(await titles(reader!, "deploy.ready", "deploy.unhealthy", "deploy.recovered")).toEqual([]);
});
