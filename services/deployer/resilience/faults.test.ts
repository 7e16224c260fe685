import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from "vitest";
import type { TestNats } from "../../../test/support/servers/nats.ts";
import { newId } from "../../kit/ids.ts";
import { type Outcome, openProxy, type TcpProxy } from "../../kit/testing/proxy.ts";
import { refusal } from "../../kit/testing/refusal.ts";
import { sample } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { actAs, archiveOf, startTestPlatform, type TestPlatform, visit } from "../testing/testing.ts";
import {
  collectEvents,
  type DeployerProcess,
  deployerProcess,
  everyDeploymentEnds,
  runningFolders,
} from "../testing/testing-process.ts";

const OUTAGE_MS = 10_000;

let platform: TestPlatform;
let proxy: TcpProxy;
let deployer: DeployerProcess;
let events: ReturnType<typeof collectEvents>;
let nats: TestNats | undefined;

beforeAll(async () => {
  platform = await startTestPlatform();
  proxy = await openProxy(new URL(platform.env.DATABASE_URL!));
  deployer = deployerProcess(platform);
  events = collectEvents(platform);
});
beforeEach(() =>
  deployer.run({
    DATABASE_URL: proxy.of(platform.env.DATABASE_URL!),
    ADDON_POSTGRES_URL: proxy.of(platform.env.ADDON_POSTGRES_URL!),
  }),
);
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await events?.stop();
  await platform?.stop();
  await nats?.stop();
  proxy?.shut();
});

const app = (edition: string) =>
  archiveOf({
    "package.json": JSON.stringify({
      name: "app",
      scripts: { build: "sleep 0.5", start: "node server.js" },
    }),
    "server.js":
      `require('node:http').createServer((q, r) => r.end('${edition} ' + process.env.GREETING + ' ' + process.pid))` +
      ".listen(process.env.PORT)",
  });

const addonTypes = inject("redisProgram") ? ["postgres", "redis"] : ["postgres"];

/** Services with something going on in each part of the deployer. */
async function startLoad() {
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const web = async (name: string) => {
    const config = { minReadySeconds: 0 };
    const { id } = await acting.catalog.createService({ ...environment, name, type: "web", config });
    return { id, path: environment.at(name) };
  };
  const greet = async (id: string, greeting: string) => {
    platform.variables.set(id, [{ name: "GREETING", value: greeting }]);
    await platform.variables.changed(acting.accountId, "service", id);
  };
  const deploy = async ({ path }: { path: ServicePath }, edition: string) =>
    acting.deployArchive(path, await app(edition));
  const answers = (one: { path: ServicePath }, beginning: string) =>
    eventually(`${one.path.service} answers ${beginning}`, async () => {
      const { url } = await acting.service(one.path);
      return url !== undefined && (await visit(url)).text.startsWith(beginning) && url;
    });
  const [steady, deployed, changed] = await Promise.all(["steady", "deployed", "changed"].map(web));
  for (const one of [steady!, deployed!, changed!]) {
    await greet(one.id, "hello");
    await deploy(one, "one");
  }
  const url = await answers(steady!, "one hello");
  await answers(changed!, "one hello");
  await answers(deployed!, "one hello");
  const pid = (await visit(url)).text;
  const stores = addonTypes.map((type) => ({ type, path: environment.at(type) }));
  return {
    ...acting,
    deploy,
    answers,
    greet,
    deployed: deployed!,
    changed: changed!,
    /** Begins a build, a roll of variables and addons; what begins while the outage does. */
    async begin() {
      await deploy(deployed!, "two");
      await greet(changed!.id, "bonjour");
      for (const { type } of stores) await acting.catalog.createService({ ...environment, name: type, type });
    },
    /** Visits the service with which nothing happens until the signal; gives what it answered. */
    async visitSteadily(signal: AbortSignal) {
      const heard = new Set<string>();
      while (!signal.aborted) {
        heard.add(await visit(url).then(({ status, text }) => `${status} ${text}`, String));
        await delay(50, undefined, { signal }).catch(() => {});
      }
      expect([...heard]).toEqual([`200 ${pid}`]);
    },
    /** All that was begun comes to its end, once, and nothing else happened. */
    async settles(editions: string, greeting = "bonjour") {
      // A moment after the database the deployer is back.
      await eventually("the deployer is ready", async () =>
        fetch(`http://127.0.0.1:${platform.port}/readyz`).then((answer) => answer.ok),
      );
      await answers(deployed!, `${editions} hello`);
      await answers(changed!, `one ${greeting}`);
      for (const { path } of stores) await acting.untilService(path, "running");
      expect(deployer.runs()).toBe(true);
      expect((await visit(url)).text).toBe(pid);
      for (const { id } of [steady!, changed!, deployed!]) {
        const ends = await everyDeploymentEnds(platform, events.received, id);
        expect(ends.filter((one) => one === "failed")).toEqual([]);
        await eventually(
          "one process of it runs",
          async () => runningFolders(platform).filter((folder) => folder.includes(id)).length === 1,
        );
      }
      const usage = events.received.filter((one) => one.serviceId === steady!.id && one.intervalId);
      expect(usage.map(({ kind }) => kind)).toEqual(["UsageStarted"]);
      await acting.catalog.deleteProject({ ...environment, confirmImpact: true });
      await eventually("all of it can be deleted", async () => runningFolders(platform).length === 0);
    },
  };
}

type Load = Awaited<ReturnType<typeof startLoad>>;

/** The outage, with visits to what runs. */
async function during(load: Load, outage: () => Promise<void>): Promise<void> {
  const over = new AbortController();
  const visiting = load.visitSteadily(over.signal);
  await outage().finally(() => over.abort());
  await visiting;
}

test("the database refuses for 10 s under load: apps answer, calls are refused, and everything recovers by itself", async () => {
  const load = await startLoad();
  await load.begin();
  await during(load, async () => {
    proxy.shut();
    const until = delay(OUTAGE_MS);
    const said = await refusal(load.catalog.getService(load.deployed.path));
    expect([said.status, said.code]).toEqual([503, "unavailable"]);
    await until;
    await proxy.open();
  });
  await load.settles("two");
});

const HANGS: [string, Outcome][] = [
  ["then resumes", "kept"],
  ["then breaks its connections", "lost"],
  ["and never answers those who connected meanwhile", "silent"],
];

test.each(sample("ways in which the database hangs", HANGS, 1))(
  "the database hangs for 10 s under load, %s: apps answer, and everything recovers by itself",
  async (_, outcome) => {
    const load = await startLoad();
    await load.begin();
    await during(load, async () => {
      proxy.hang(outcome);
      const asked = load.catalog.getService(load.deployed.path).then(
        () => "answered",
        (error) => refusal(Promise.reject(error)).then(({ status, code }) => `${status} ${code}`),
      );
      await delay(OUTAGE_MS);
      proxy.goOn(outcome);
      expect(["answered", "503 unavailable"]).toContain(await asked);
    });
    await load.settles("two");
  },
);

test("NATS is away for 10 s under load: deployments continue meanwhile, and events arrive afterwards", async () => {
  const load = await startLoad();
  await load.begin();
  await during(load, async () => {
    process.kill(platform.nats.pid, "SIGKILL");
    const until = delay(OUTAGE_MS);
    await load.answers(load.deployed, "two hello");
    await load.deploy(load.deployed, "three");
    await load.answers(load.deployed, "three hello");
    await load.greet(load.changed.id, "buongiorno");
    await until;
    nats = await platform.nats.restart();
  });
  await load.settles("three", "buongiorno");
});
