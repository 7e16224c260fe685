import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Pod } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

const MINUTES = 60_000;
/** How long pods run: longer than the minute after which the deployer records anew what runs. */
const RUN_MS = 70_000;
/**
 * What three pods may differ by, however long they run: the cluster dates their beginnings and ends to the second, and
 * the deployer hears of them later.
 */
const SLACK_SECONDS = 5;

let world: Platform;
let kube: Kube;
beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

type Line = { replicas: number; seconds: number; endedAt?: string };

/** When a pod became ready, and when its end was asked for (ms). */
type Ran = { from?: number; until?: number };

function record(ran: Map<string, Ran>, { metadata, status }: V1Pod): void {
  const known = ran.get(metadata!.uid!) ?? {};
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const from = ready?.status === "True" ? new Date(ready.lastTransitionTime!).getTime() : undefined;
  const { deletionTimestamp: gone, deletionGracePeriodSeconds: grace = 0 } = metadata!;
  const until = gone && new Date(gone).getTime() - grace * 1_000;
  ran.set(metadata!.uid!, { from: known.from ?? from, until: known.until ?? until });
}

test(
  "the usage of a service is the sum of the seconds that its pods ran",
  async () => {
    const { E, S: at } = await world.environment();
    const S = at("web");
    const says = `process.once("SIGTERM", () => process.exit()); require("node:http").createServer((_, response) => response.end("ok")).listen(process.env.PORT)`;
    const config = { replicas: 2, minReadySeconds: 0, command: `node -e '${says}'` };
    const { id } = await world.must<{ id: string }>("POST", `${E}/services`, {
      name: "web",
      type: "web",
      config,
    });
    await world.must("POST", `${S}/deploy`, { image: inject("clusterImages").node });
    expect(await settled(world, S, 1)).toMatchObject({ status: "applied" });

    const ran = new Map<string, Ran>();
    const labels = selector({ [label("service")]: id });
    const look = async () => {
      const { items } = await kube.list<V1Pod>(Pod, { labels });
      for (const pod of items) record(ran, pod);
      return items;
    };
    const ready = () =>
      [...ran.values()].filter(({ from, until }) => from !== undefined && until === undefined);
    const patience = RUN_MS + 3 * MINUTES;
    await eventually(
      "both pods have run for a while",
      async () => (await look()) && ready().filter(({ from }) => Date.now() - from! > RUN_MS).length === 2,
      patience,
    );
    await world.must("PATCH", S, { config: { replicas: 3 } });
    await eventually("there is a third", async () => (await look()) && ready().length === 3);
    await world.must("PATCH", S, { config: { replicas: 0 } });
    await eventually("all pods are gone", async () => (await look()).length === 0, patience);

    const lines = await eventually("the usage has ended", async () => {
      const { data } = await world.must<{ data: Line[] }>(
        "GET",
        `${world.A}/compute-usage/lines?serviceId=${id}`,
      );
      return data.length > 0 && data.every(({ endedAt }) => endedAt !== undefined) && data;
    });
    const used = lines.reduce((sum, { replicas, seconds }) => sum + replicas * seconds, 0);
    const seconds = [...ran.values()].reduce((sum, { from, until }) => sum + (until! - from!) / 1_000, 0);
    expect(ran.size).toBe(3);
    expect(Math.abs(used - seconds)).toBeLessThanOrEqual(SLACK_SECONDS);
  },
  15 * MINUTES,
);
