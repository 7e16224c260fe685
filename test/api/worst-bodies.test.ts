import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createRandom } from "../../services/kit/testing/random.ts";
import { type Launched, launch } from "../support/launched.ts";
import { measureWorst, worstRequests } from "../support/worst-bodies.ts";

let platform: Launched;

beforeAll(async () => {
  platform = await launch();
});

afterAll(() => platform?.stop());

// CPU and memory of processes are read from /proc.
const { platform: system } = process;
test.skipIf(system !== "linux")(
  "the worst request of every route costs at most 250 ms of CPU and 64 MiB [Linux]",
  async () => {
    const seed = inject("seed");
    const { accountId } = platform;
    const create = async (path: string, body: object) =>
      ((await platform.request("POST", path, body)).body as { id: string }).id;
    const projectId = await create(`/accounts/${accountId}/projects`, { name: "worst" });
    const P = `/accounts/${accountId}/projects/${projectId}`;
    const environmentId = await create(`${P}/environments`, { name: "live" });
    await create(`${P}/environments/${environmentId}/services`, { name: "web", type: "web" });
    const place = { accountId, projectId, environmentId, service: "web" };
    const requests = worstRequests(platform, place, createRandom(seed), 2);
    const said: string[] = [];
    const expensive = await measureWorst(platform, requests, (line) => void said.push(line));
    expect(expensive, `seed ${seed}\n${said.slice(-5).join("\n")}`).toEqual([]);
    expect(said.length).toBe(requests.length);
  },
);
