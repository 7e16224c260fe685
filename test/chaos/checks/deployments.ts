import { setTimeout as delay } from "node:timers/promises";
import { createRandom } from "../../../services/kit/testing/random.ts";
import { type Deployment, deployArchive, hasEnded, observe } from "../clients/deployments.ts";
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

/** Far longer than a deployment without a build takes, and shorter than what is missed waits for the next comparison. */
const PROMPT_MS = 8_000;
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

async function probe(checking: Checking, web: string): Promise<string[]> {
  const { shared, record, client, listAll } = checking;
  const S = `${shared.environment}/services/${web}`;
  const effects = record.effects;
  const list = () => listAll<Deployment>(`${S}/deployments`);
  const random = createRandom(Date.now());
  const healthy = async () => (await list()).find((one) => one.healthyAt);
  if (!(await healthy())) {
    const made = await deployArchive(client, S, web, `probe-${web}-first`, random);
    if (made)
      effects.push({
        ...{ action: "deployment.create", name: web, ids: [], audited: false },
        ...made,
        service: web,
      });
    await checking.until(async () => ((await healthy()) ? [] : ["it is not healthy yet"]));
  }
  const slow: string[] = [];
  const to = (await healthy())?.version;
  for (let n = 0; to !== undefined && n < PROBES; n++) {
    const { status, body } = await client.send("POST", `${S}/rollback`, { version: to });
    if (status >= 300 || status === 0) continue;
    const { id, version } = body as Deployment;
    effects.push({ action: "deployment.create", name: web, id, ids: [], audited: false, service: web });
    const from = Date.now();
    const ended = async () => (await list()).some((one) => one.id === id && hasEnded(one));
    while (!(await ended()) && Date.now() - from < PROMPT_MS) await delay(100);
    if (Date.now() - from >= PROMPT_MS)
      slow.push(`${web} ${version} waits for more than ${PROMPT_MS / 1_000} s`);
  }
  return slow;
}
