import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../../services/kit/testing/random.ts";
import type { Client } from "./client.ts";
import type { Record } from "./record.ts";
import type { Work } from "./shared.ts";

export type Deployment = { id: string; version: number; status: string; healthyAt?: string };

/** Far longer than a rollback waits, and shorter than what is missed waits for the next comparison. */
export const PROMPT_MS = 8_000;

const ENDS = ["applied", "failed", "superseded"];
export const hasEnded = ({ status }: Deployment) => ENDS.includes(status);

const app = () => execFileSync("tar", ["-cz", "-C", join(import.meta.dirname, "../../apps/node"), "."]);

/** Notes how deployments ended, and which of them changed after that. */
export function observe(record: Record, deployments: Deployment[]): void {
  for (const { id, version, status } of deployments.filter(hasEnded)) {
    const before = record.ended.get(id) ?? status;
    if (before !== status) record.wrong.push(`${id} (${version}) was ${before}, and is ${status} after that`);
    record.ended.set(id, before);
  }
}

async function list(client: Client, record: Record, service: string): Promise<Deployment[]> {
  const { body } = await client.send("GET", `${service}/deployments?limit=20`);
  const found = (body as { data?: Deployment[] } | undefined)?.data ?? [];
  observe(record, found);
  return found;
}

const rollBack = (client: Client, S: string, web: string, to: Deployment, what: string, random: Random) =>
  client.effect(
    { action: "deployment.create", service: web },
    what,
    `${S}/rollback`,
    { version: to.version },
    random,
  );

/** Deploys an archive under a key. Returns undefined when it was not accepted. */
export async function deployArchive(client: Client, S: string, web: string, what: string, random: Random) {
  const target = await client.send("POST", `${S}/uploads`, {});
  if (target.status !== 200) return undefined;
  const { uploadUrl, archiveRef, contentType } = target.body as { [name: string]: string };
  const put = await client.send("PUT", uploadUrl!, app(), { headers: { "content-type": contentType! } });
  if (put.status !== 200) return undefined;
  const effect = { action: "deployment.create", service: web };
  return client.effect(effect, what, `${S}/deploy-from-archive`, { archiveRef }, random);
}

/** Deploys and rolls back, each under a key. */
export const deployments =
  (record: Record): Work =>
  async (client, { environment, webs }, random, round) => {
    const web = random.of(webs);
    const S = `${environment}/services/${web}`;
    const live = (await list(client, record, S)).filter((one) => one.healthyAt);
    // Older ones may leave the plan's history meanwhile.
    const former = random.next() < 0.5 ? live[1] : undefined;
    if (former) await rollBack(client, S, web, former, `rollback-${round}`, random);
    else await deployArchive(client, S, web, `deploy-${round}`, random);
    const choice = random.next();
    if (choice < 0.15) await client.write("POST", `${S}/restart`, {});
    else if (choice < 0.3 && live[0])
      await client.write("POST", `${S}/deployments/${live[0].version + 1}/cancel`, {});
    await delay(random.between(500, 4_000));
  };

/** Rolls one service back several times in a row, so that versions are superseded while they are applied. */
export const bursts =
  (record: Record): Work =>
  async (client, { environment, webs, faults }, random, round) => {
    const web = random.of(webs);
    const S = `${environment}/services/${web}`;
    const healthy = async () => (await list(client, record, S)).filter((one) => one.healthyAt);
    const [live, former] = await healthy();
    if (!former) {
      await deployArchive(client, S, web, `deploy-${round}`, random);
      for (let tries = 0; tries < 40 && (await healthy())[0]?.id === live?.id; tries++) await delay(500);
      return;
    }
    let last: { id: string } | undefined;
    for (let n = random.between(2, 4); n > 0; n--) {
      last = (await rollBack(client, S, web, former, `burst-${round}-${n}`, random)) ?? last;
      await delay(random.between(0, 300));
    }
    const from = Date.now();
    const hasBegun = async () =>
      (await list(client, record, S)).some((one) => one.id === last?.id && hasEnded(one));
    while (last && !(await hasBegun()) && Date.now() - from < PROMPT_MS) await delay(150);
    // What a fault leaves behind, such as a connection that is silent, ends within half a minute.
    if (Date.now() - from >= PROMPT_MS && faults.calm(from - 30_000, Date.now()))
      client.wrong(`${last!.id} waits for more than ${PROMPT_MS / 1_000} s, though there is no fault`);
  };
