import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Job } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { deployArchive, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { saying, webService } from "./web-service.ts";

type Run = { id: string; status: string; exitCode?: number };

let world: Platform;
let kube: Kube;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

test("a run is a Job beside its service, with its output and exit code; a canceled one ends, and nothing is left", async () => {
  const { S, live, environmentId } = await webService(world);
  await live({ "package.json": "{}", "server.js": saying("one") });
  const labels = selector({ [label("environment")]: environmentId });
  const jobs = async () =>
    (await kube.list(Job, { labels })).items.filter(({ metadata }) => metadata?.name?.startsWith("run-"));
  const start = (command: string) => world.must<Run>("POST", `${S}/runs`, { command });
  const logs = async ({ id }: Run) =>
    (await world.must<{ logs: string }>("GET", `${S}/runs/${id}/logs`)).logs;
  const show = ({ id }: Run) => world.must<Run>("GET", `${S}/runs/${id}`);

  const failing = await start(`echo "runs with port $PORT"; exit 3`);
  const waiting = await start("echo waiting; sleep 600");
  await eventually("it has failed", async () => (await show(failing)).status === "failed");
  expect(await show(failing)).toMatchObject({ exitCode: 3 });
  expect(await logs(failing)).toBe("runs with port 8080\n");
  await eventually("it runs", async () => (await logs(waiting)).includes("waiting"));
  await world.must("POST", `${S}/runs/${waiting.id}/cancel`);
  await eventually("their Jobs are removed", async () => (await jobs()).length === 0);
});

test("a cron service is healthy without pods, and runs its start command on request", async () => {
  const { E, S: service } = await world.environment();
  const S = service("report");
  const config = { schedule: "0 0 1 1 *" };
  await world.must("POST", `${E}/services`, { name: "report", type: "cron", config });
  const files = [
    { name: "package.json", content: `{"scripts":{"start":"node report.js"}}` },
    { name: "report.js", content: `console.log("reported")` },
  ];
  const { version } = await deployArchive(world, S, await archiveOf(files));
  await settled(world, S, version);
  await eventually("it is healthy", async () => {
    const { status, liveVersion } = await world.must<{ status: string; liveVersion?: number }>("GET", S);
    return status === "running" && liveVersion === version;
  });
  const { id } = await world.must<Run>("POST", `${S}/runs`, {});
  await eventually(
    "it succeeded",
    async () => (await world.must<Run>("GET", `${S}/runs/${id}`)).status === "succeeded",
  );
  expect((await world.must<{ logs: string }>("GET", `${S}/runs/${id}/logs`)).logs).toContain("reported");
});
