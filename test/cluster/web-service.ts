import type { V1Pod } from "@kubernetes/client-node";
import { expect } from "vitest";
import type { Kube } from "../../services/deployer/kube/client.ts";
import { Pod } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import type { Platform } from "../support/world.ts";

export type Service = { id: string; status: string; url: string; liveVersion?: number };
type Files = Record<string, string>;

const pack = (files: Files) => archiveOf(Object.entries(files).map(([name, content]) => ({ name, content })));

/** Returns an app that answers with these words, and ends as soon as it is asked to. */
export const saying = (words: string) =>
  `process.once("SIGTERM", () => process.exit()); require("node:http").createServer((_, response) => response.end(${JSON.stringify(words)})).listen(process.env.PORT);`;

/** Makes a service whose replicas count as healthy a second after they are ready, in a project of its own. */
export async function webService(world: Platform) {
  const { E, environmentId, S: service, P } = await world.environment();
  const S = service("web");
  const config = { minReadySeconds: 1 };
  const made = await world.must<Service>("POST", `${E}/services`, { name: "web", type: "web", config });
  const deploy = async (files: Files) => (await deployArchive(world, S, await pack(files))).version;
  const shown = () => world.must<Service>("GET", S);
  const said = async () => (await open((await shown()).url)).body;
  const at = (version: number) => world.must<Deployment>("GET", `${S}/deployments/${version}`);
  const log = async (version: number) =>
    (await world.must<{ logs: string }>("GET", `${S}/deployments/${version}/build-logs`)).logs;
  const live = async (files: Files) => {
    const version = await deploy(files);
    expect(await settled(world, S, version)).toMatchObject({ status: "applied", errors: [] });
    return version;
  };
  return { P, E, S, id: made.id, environmentId, deploy, live, shown, said, at, log };
}

export const podsOf = async (kube: Kube, serviceId: string): Promise<V1Pod[]> =>
  (await kube.list<V1Pod>(Pod, { labels: selector({ [label("service")]: serviceId }) })).items;
