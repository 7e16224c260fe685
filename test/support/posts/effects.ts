import { randomBytes } from "node:crypto";
import { deployArchive, settled } from "../apps.ts";
import { archiveOf } from "../archives.ts";
import type { Door } from "../door.ts";

export type Made = { id: string; [member: string]: unknown };

/** A request to make, and how to recognise its effect. */
export type Post = {
  path: string;
  body: unknown;
  /** Returns what identifies the effect in an answer. */
  named: (answer: Made) => string;
  /** Lists what identifies all effects of this request, where the API has such a list. */
  made?: () => Promise<string[]>;
  /** The audit record of the effect; absent when nothing is changed. */
  audited?: { action: string; target: (answer: Made) => string };
};

export const unique = (prefix: string) => `${prefix}${randomBytes(6).toString("hex")}`;
export const byId = (answer: Made) => answer.id;

/** Returns a function that lists the ids of the entries that `fits` accepts. */
export const listed = (door: Door, path: string, fits: (one: Made) => boolean) => async () =>
  (await door.must<{ data: Made[] }>("GET", `${path}?limit=100`)).data.filter(fits).map(byId);

export const created = (action: string) => ({ action, target: byId });

export const page = (text: string) => archiveOf([{ name: "index.html", content: text }]);

/** Invites the caller to another user's account. */
export async function invited(door: Door): Promise<{ id: string; accountId: string }> {
  const { token } = await door.member("reader");
  const { email } = await door.must<{ email: string }>("GET", "/me");
  const { id: accountId } = await door.must<Made>("POST", "/accounts", { handle: unique("h") }, token);
  const { id } = await door.must<Made>(
    "POST",
    `/accounts/${accountId}/members`,
    { email, role: "reader" },
    token,
  );
  return { id, accountId };
}

const lives = new WeakMap<Door, Map<string, Promise<string>>>();

/** Returns the path of a web service on which `versions` versions have been live, created once for each name. */
export function liveService(door: Door, name: string, versions: number): Promise<string> {
  const known = lives.get(door) ?? new Map<string, Promise<string>>();
  lives.set(door, known);
  const make = async () => {
    const { E, S: service } = await door.environment();
    const S = service("web");
    await door.must("POST", `${E}/services`, { name: "web", type: "web", config: { minReadySeconds: 0 } });
    for (let version = 1; version <= versions; version++) {
      await deployArchive(door, S, await page(`version ${version}`));
      await settled(door, S, version);
    }
    return S;
  };
  const service = known.get(name) ?? make();
  known.set(name, service);
  return service;
}

/** Returns how to recognise a deployment of a service that is created after this call. */
export async function deploying(door: Door, S: string): Promise<Pick<Post, "named" | "made" | "audited">> {
  const before = new Set(await listed(door, `${S}/deployments`, () => true)());
  const made = listed(door, `${S}/deployments`, ({ id }) => !before.has(id));
  return { named: byId, made, audited: created("deployment.create") };
}
