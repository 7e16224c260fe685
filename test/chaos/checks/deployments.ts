import { setTimeout as delay } from "node:timers/promises";
import { createRandom } from "../../../services/kit/testing/random.ts";
import { type Deployment, deployArchive, hasEnded, observe, PROMPT_MS } from "../clients/deployments.ts";
import type { Check, Checking } from "./checking.ts";

export const deploymentsDense: Check = {
  name: "deployments dense, ended, each of one key",
  async find(checking) {
    const found: string[] = [];
    for (const web of checking.shared.webs) found.push(...(await checking.until(() => look(checking, web))));
    return found;
  },
};

async function look({ shared, record, listAll, get }: Checking, web: string): Promise<string[]> {
  const S = `${shared.environment}/services/${web}`;
  const all = (await listAll<Deployment>(`${S}/deployments`)).toSorted((a, b) => a.version - b.version);
  const { liveVersion } = await get<{ liveVersion?: number }>(S);
  const newest = all.findLast(({ status }) => status === "applied")?.version;
  const known = new Set(record.effects.filter(({ service }) => service === web).map(({ id }) => id));
  observe(record, all);
  return [
    ...all
      .filter(({ version }, at) => version !== at + 1)
      .map(({ version }) => `${web} has a gap before ${version}`),
    ...all.filter((one) => !hasEnded(one)).map(({ version, status }) => `${web} ${version} is ${status}`),
    ...all.filter(({ id }) => !known.has(id)).map(({ version }) => `${web} ${version} has no request`),
    ...[...known].filter((id) => !all.some((one) => one.id === id)).map((id) => `${web} lost ${id}`),
    ...(liveVersion === newest ? [] : [`${web} runs ${liveVersion}, the newest applied is ${newest}`]),
  ];
}

const PROBES = 5;

/** Nothing is done to the platform by then: what waits has not been woken. */
export const promptDeployments: Check = {
  name: "deployments begin when they are accepted",
  async find(checking) {
    const slow: string[] = [];
    for (const web of checking.shared.webs) slow.push(...(await probe(checking, web)));
    return slow;
  },
};

async function probe({ shared, record, client, listAll, until }: Checking, web: string): Promise<string[]> {
  const S = `${shared.environment}/services/${web}`;
  const random = createRandom(Date.now());
  const slow: string[] = [];
  const list = () => listAll<Deployment>(`${S}/deployments`);
  const healthy = async () => (await list()).filter((one) => one.healthyAt);
  const expectBegun = async (id: string, hasBegun: (one: Deployment) => boolean) => {
    const from = Date.now();
    const begun = async () => (await list()).some((one) => one.id === id && hasBegun(one));
    while (!(await begun()) && Date.now() - from < PROMPT_MS) await delay(100);
    if (Date.now() - from >= PROMPT_MS) slow.push(`${web}: ${id} waits for more than ${PROMPT_MS / 1_000} s`);
  };
  const keep = (id: string) =>
    record.effects.push({
      action: "deployment.create",
      name: web,
      id,
      ids: [],
      audited: false,
      service: web,
    });

  for (let n = (await healthy()).length; n < 2 && slow.length === 0; n++) {
    const made = await deployArchive(client, S, web, `probe-${web}-${n}`, random);
    if (!made) break;
    keep(made.id);
    await expectBegun(made.id, ({ status }) => status !== "queued");
    await until(async () => ((await healthy()).length > n ? [] : ["it is not healthy yet"]));
  }
  for (let n = 0; n < PROBES && slow.length === 0; n++) {
    const former = (await healthy())[1];
    if (!former) break;
    const { status, body } = await client.send("POST", `${S}/rollback`, { version: former.version });
    if (status >= 300 || status === 0) continue;
    const { id } = body as Deployment;
    keep(id);
    await expectBegun(id, hasEnded);
  }
  return slow;
}
