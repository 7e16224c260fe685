import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../services/kit/testing/random.ts";
import { type Client, createClient, type Record } from "./clients.ts";

/** What the clients share: one project with registers, and services that are deployed. */
export type Shared = {
  account: string;
  project: string;
  environment: string;
  registers: string[];
  webs: string[];
};

const REGISTERS = 8;
const WEBS = 3;

/** Creates what the clients share, before the first fault. */
export async function prepareShared(at: { baseUrl: string; token: string }, record: Record): Promise<Shared> {
  const { send } = createClient(at, "setup", record);
  const must = async <T>(method: string, path: string, body?: unknown) => {
    const { status, body: made } = await send(method, path, body);
    if (status >= 300 || status === 0)
      throw new Error(`${method} ${path}: ${status} ${JSON.stringify(made)}`);
    return made as T;
  };
  const { data } = await must<{ data: { id: string }[] }>("GET", "/accounts");
  const account = `/accounts/${data[0]!.id}`;
  const project = `${account}/projects/${(await must<{ id: string }>("POST", `${account}/projects`, { name: "chaos" })).id}`;
  const made = await must<{ id: string }>("POST", `${project}/environments`, { name: "production" });
  const environment = `${project}/environments/${made.id}`;
  const registers = Array.from({ length: REGISTERS }, (_, n) => `R${n}`);
  for (const name of registers) {
    const start = performance.now();
    await must("POST", `${project}/variables`, { name, value: "first" });
    record.history.push({ kind: "write", key: name, value: "first", start, end: performance.now() });
  }
  const webs = Array.from({ length: WEBS }, (_, n) => `web${n}`);
  for (const name of webs)
    await must("POST", `${environment}/services`, { name, type: "web", config: { minReadySeconds: 0 } });
  return { account, project, environment, registers, webs };
}

type Work = (client: Client, shared: Shared, random: Random, n: number) => Promise<void>;

/** Reads and writes single variables, and two at once: `history.ts` judges them. */
const registers =
  (record: Record): Work =>
  async (client, { project, registers: names }, random, n) => {
    const key = random.of(names);
    const path = `${project}/variables/${key}`;
    const start = performance.now();
    const choice = random.next();
    if (choice < 0.5) {
      const { status, body } = await client.send("GET", path);
      if (status !== 200) return;
      const { value } = body as { value: string };
      record.history.push({ kind: "read", key, value, start, end: performance.now() });
      return;
    }
    const value = `${start}-${n}-${random.next()}`;
    const keys = choice < 0.85 ? [key] : [...new Set([key, random.of(names)])];
    const { status } =
      choice < 0.85
        ? await client.write("PATCH", path, { value })
        : await client.write("POST", `${project}/variables/batch`, {
            set: keys.map((name) => ({ name, value })),
          });
    if (status >= 400 && status < 500) return;
    const end = status === 0 || status >= 500 ? Infinity : performance.now();
    for (const one of keys) record.history.push({ kind: "write", key: one, value, start, end });
  };

/** Creates variables and environments, each under a key. */
const creations: Work = async (client, { environment, project }, random, n) => {
  const what = `made-${n}`;
  const name = what.replaceAll("-", "_").toUpperCase();
  if (random.next() < 0.7)
    await client.effect(
      "variable.create",
      what,
      `${environment}/variables`,
      { name: `${name}_${client.name}`, value: "x" },
      random,
    );
  else
    await client.effect(
      "environment.create",
      what,
      `${project}/environments`,
      { name: `e${n}-${client.name}` },
      random,
    );
  await delay(50);
};

const app = () => execFileSync("tar", ["-cz", "-C", join(import.meta.dirname, "../apps/node"), "."]);

/** Deploys and rolls back, each under a key. */
const deployments: Work = async (client, { environment, webs }, random, n) => {
  const web = random.of(webs);
  const S = `${environment}/services/${web}`;
  const { body: page } = await client.send("GET", `${S}/deployments?limit=20`);
  const live = ((page as { data?: { version: number; healthyAt?: string }[] })?.data ?? []).filter(
    (one) => one.healthyAt,
  );
  if (live.length > 1 && random.next() < 0.3) {
    const { version } = live.at(-1)!;
    await client.effect("deployment.create", `rollback-${n}`, `${S}/rollback`, { version }, random, web);
  } else {
    const target = await client.send("POST", `${S}/uploads`, {});
    if (target.status !== 200) return;
    const { uploadUrl, archiveRef, contentType } = target.body as { [name: string]: string };
    const put = await client.send("PUT", uploadUrl!, app(), { "content-type": contentType! });
    if (put.status !== 200) return;
    await client.effect(
      "deployment.create",
      `deploy-${n}`,
      `${S}/deploy-from-archive`,
      { archiveRef },
      random,
      web,
    );
  }
  const choice = random.next();
  if (choice < 0.15) await client.write("POST", `${S}/restart`, {});
  else if (choice < 0.3 && live[0])
    await client.write("POST", `${S}/deployments/${live[0].version + 1}/cancel`, {});
  await delay(random.between(500, 4_000));
};

/** Creates and deletes whole projects; what is deleted must be gone at once. */
const projects: Work = async (client, { account }, random, n) => {
  const made = await client.effect(
    "project.create",
    `project-${n}`,
    `${account}/projects`,
    { name: `p${n}-${client.name}` },
    random,
  );
  if (!made) return;
  const P = `${account}/projects/${made.id}`;
  const environment = await client.send("POST", `${P}/environments`, { name: "only" });
  if (environment.status === 201) {
    const E = `${P}/environments/${(environment.body as { id: string }).id}`;
    await client.write("POST", `${E}/variables`, { name: "A", value: "1" });
    if (random.next() < 0.3) await client.send("POST", `${E}/services`, { name: "db", type: "postgres" });
  }
  for (;;) {
    const { status } = await client.send("DELETE", P, { confirmImpact: true });
    if (status === 204 || status === 404) break;
    await delay(500);
  }
  for (const path of [P, `${P}/variables`, `${P}/environments`]) {
    const { status } = await client.send("GET", path);
    if (status === 200) client.wrong(`GET ${path} answered 200 after the deletion was acknowledged`);
  }
  const { status } = await client.write("POST", `${P}/variables`, { name: "LATE", value: "1" });
  if (status === 200) client.wrong(`a variable was written to ${P} after its deletion was acknowledged`);
};

/** Reads what people read meanwhile. */
const reads: Work = async (client, { account, project, environment, webs }, random) => {
  const S = `${environment}/services/${random.of(webs)}`;
  const paths = [
    "/me",
    `${account}/audit-events`,
    `${project}/variables`,
    `${S}/resolved-variables`,
    `${S}/deployments`,
    `${S}/logs`,
    S,
    `${environment}/services`,
    `${project}/variables/R0/impact`,
  ];
  await client.send("GET", random.of(paths));
  await delay(20);
};

/** Runs `clients` clients until a time; they finish what they have begun. */
export async function work(
  at: { baseUrl: string; token: string },
  shared: Shared,
  record: Record,
  options: { clients: number; random: (n: number) => Random; until: number },
): Promise<void> {
  const kinds = [
    registers(record),
    creations,
    registers(record),
    deployments,
    registers(record),
    projects,
    reads,
  ];
  const one = async (n: number) => {
    const client = createClient(at, `c${n}`, record);
    const random = options.random(n);
    for (let round = 0; Date.now() < options.until; round++)
      await kinds[n % kinds.length]!(client, shared, random, round);
  };
  await Promise.all(Array.from({ length: options.clients }, (_, n) => one(n)));
}
