import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { freePort } from "../../services/kit/process/free-port.ts";
import { nodeEnv } from "../../services/kit/testing/service-process.ts";
import { type OauthPlatform, oauthPlatform } from "../support/oauth/platform.ts";
import { createReplicas, type Replicas } from "../support/oauth/replicas.ts";

let it: OauthPlatform;
let replicas: Replicas;
beforeAll(async () => {
  it = await oauthPlatform();
  replicas = createReplicas(it);
});
afterEach(() => replicas?.stop());
afterAll(() => it?.stop());

test("tokens that were signed before a key was replaced work after, and new ones are signed by its successor", async () => {
  const before = await it.letIn();
  const kidOf = (token: string) =>
    (JSON.parse(Buffer.from(token.split(".")[0]!, "base64url").toString()) as { kid: string }).kid;
  const age = (days: number) =>
    it.pool.query("update oauth_keys set created_at = created_at - make_interval(days => $1)", [days]);
  const published = async (at: string) => {
    const { keys } = (await (await fetch(`${at}/.well-known/jwks.json`)).json()) as {
      keys: { kid: string }[];
    };
    return keys.map(({ kid }) => kid);
  };
  await age(89);
  const announcing = await replicas.replica();
  const [signing, next] = await published(announcing.origin);
  expect(signing).toBe(kidOf(before.token));
  expect(next).toBeTruthy();
  await age(1);
  const replaced = await replicas.replica();
  expect(await published(replaced.origin)).toEqual([next, signing]);
  const refreshed = await it.post(
    "/oauth2/token",
    { grant_type: "refresh_token", client_id: before.clientId, refresh_token: before.refreshToken },
    replaced.origin,
  );
  expect(kidOf(refreshed.body.access_token!)).toBe(next);
  for (const token of [before.token, refreshed.body.access_token!])
    for (const door of [announcing, replaced])
      expect((await door.call("GET", it.A, undefined, { token })).status).toBe(200);
});

test("a flow that is under way goes on at a replica with a new first key, and its tokens work at one with the old", async () => {
  const [old, next] = [replicas.env().INTERNAL_KEYS, randomBytes(32).toString("base64")];
  const clientId = await it.register();
  const begun = await it.begin(clientId);
  const changed = await replicas.replica({ INTERNAL_KEYS: `${next},${old}` });
  const back = await it.allow(begun, { origin: changed.origin });
  const { body } = await it.redeem(begun, back, {}, changed.origin);
  for (const door of [it, changed])
    expect((await door.call("GET", it.A, undefined, { token: body.access_token! })).status).toBe(200);
  const restored = await replicas.replica({ INTERNAL_KEYS: `${old},${next}` });
  const read = await restored.call("GET", it.A, undefined, { token: body.access_token! });
  expect(read.status).toBe(200);
});

test("identity does not start with keys that do not open what signs tokens, and says in one sentence why", async () => {
  const more = { INTERNAL_KEYS: randomBytes(32).toString("base64"), PORT: String(await freePort()) };
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../services/identity/main.ts")], {
    env: { ...nodeEnv, ...replicas.env(more) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([child.stdout.toArray(), once(child, "exit")]);
  expect(code).toBe(1);
  const said = output
    .join("")
    .split("\n")
    .filter((line) => line.includes("INTERNAL_KEYS"));
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(
    /The key key_\w+, which signs tokens of OAuth clients, opens with none of INTERNAL_KEYS/,
  );
});
