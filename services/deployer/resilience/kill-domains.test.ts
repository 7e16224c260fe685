import { request } from "node:http";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { DomainService } from "../../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { createLog } from "../../kit/log.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { startDomains } from "../domains/check-domains.ts";
import { domainSettings } from "../domains/config.ts";
import { createLookUp } from "../domains/look-up.ts";
import { startDns, type TestDns } from "../domains/testing.ts";
import type { ServedHost } from "../runtime/port.ts";
import {
  archiveOf,
  createWebService,
  exampleApp,
  startTestPlatform,
  type TestPlatform,
} from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

let platform: TestPlatform;
let dns: TestDns;
let deployer: DeployerProcess;
let hosts = 0;

beforeAll(async () => {
  dns = await startDns();
  platform = await startTestPlatform();
  Object.assign(platform.env, { DNS_SERVERS: dns.server, DOMAINS_TARGET: "apps.berth.test" });
  deployer = deployerProcess(platform);
});
afterEach(() => deployer.end("SIGTERM"));
afterAll(async () => {
  await deployer?.end("SIGKILL");
  await platform?.stop();
  await dns?.stop();
});

/** A running service with a host that DNS proves, but for which it was not looked up yet. */
async function scene() {
  const service = await createWebService(platform.port);
  const { path, accountId, until, untilService, deployArchive } = service;
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  await until(path, 1, "applied");
  await untilService(path, "running");
  const client = clientAs(DomainService, platform.port, { accountId, role: "owner" });
  const host = `shop.kill${++hosts}.com`;
  return {
    ...service,
    client,
    host,
    async add() {
      const added = await client.createDomain({ ...path, host });
      const { name, value } = added.records.find(({ type }) => type === "TXT")!;
      dns.set(name, { TXT: [value] });
      return added.id;
    },
    stateOf: async (domainId: string) => (await client.getDomain({ ...path, domainId })).state,
  };
}

function statusAt(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port: platform.env.ROUTER_PORT, headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    })
      .on("error", reject)
      .end();
  });
}

const endLeases = () => platform.pool.query("update domains set due_at = now()");

test("killed between the proof and the serving: the next start serves it, and announces it once", async () => {
  await deployer.run();
  const { add, host, stateOf } = await scene();
  const held = await holdCommits(platform, "update", "domains", "new.state = 'active'");
  const domainId = await add();
  await eventually("the host is claimed, and what was served is not recorded", async () => {
    await platform.pool.query("update domains set due_at = now() where proved_at is null");
    const { rows } = await platform.pool.query(
      "select from domains where id = $1 and proved_at is not null",
      [domainId],
    );
    return rows.length === 1;
  });
  await deployer.end("SIGKILL");
  await held.release("kept").catch(() => {});
  await deployer.run();
  await endLeases();
  await eventually("it is active", async () => (await stateOf(domainId)) === "active");
  expect(await statusAt(host)).toBe(200);
});

test("killed while a domain is removed: the next start removes it", async () => {
  await deployer.run();
  const { add, host, stateOf, client, path } = await scene();
  const domainId = await add();
  await eventually("it is active", async () => (await stateOf(domainId)) === "active");
  const held = await holdCommits(platform, "delete", "domains", "true");
  await client.deleteDomain({ ...path, domainId });
  await deployer.end("SIGKILL");
  await held.release("kept").catch(() => {});
  await deployer.run();
  await endLeases();
  await eventually("it is gone", async () => {
    const { rows } = await platform.pool.query("select from domains where id = $1", [domainId]);
    return rows.length === 0 && (await statusAt(host)) === 404;
  });
});

test("killed and started again: what was active is served at once, without a look-up", async () => {
  await deployer.run();
  const { add, host, stateOf } = await scene();
  const domainId = await add();
  await eventually("it is active", async () => (await stateOf(domainId)) === "active");
  await deployer.end("SIGKILL");
  dns.silence(true);
  await deployer.run();
  await eventually("it is served", async () => (await statusAt(host)) === 200);
  dns.silence(false);
});

test("two processes share the domains that are due: each is looked up by one, and one announces it", async () => {
  await deployer.run();
  const { add, id: serviceId, stateOf } = await scene();
  const domainId = await add();
  await eventually("it is active", async () => (await stateOf(domainId)) === "active");
  await deployer.end("SIGTERM");
  await platform.pool.query(
    `insert into domains (id, account_id, service_id, host, due_at)
     select 'dom_many' || n, account_id, service_id, 'many' || n || '.example.com', now() from domains, generate_series(1, 30) n
     where id = $1`,
    [domainId],
  );
  const log = createLog("deployer", "silent");
  const settings = domainSettings(
    {
      dnsServers: [],
      domainAddresses: [],
      domainTarget: undefined,
      domainWildcard: "off",
      domainsReserved: [],
    },
    { appsDomain: "localhost" },
  );
  const lookUp = createLookUp([dns.server], settings);
  const looked: string[] = [];
  const served: ServedHost[][] = [];
  const runtime = {
    list: async () => [],
    async setHosts(_: string, given: ServedHost[]) {
      served.push(given);
      return given.map((host) => ({ ...host, certificate: "none" as const }));
    },
  };
  const counting: typeof lookUp = (claim, signal) => {
    looked.push(claim.host);
    return lookUp(claim, signal);
  };
  const both = [1, 2].map(() => startDomains({ pool: platform.pool, runtime, lookUp: counting, log }));
  try {
    await eventually("all were looked up", async () => {
      const { rows } = await platform.pool.query(
        "select from domains where service_id = $1 and id like 'dom_many%' and checks = 0 and checked_at is null",
        [serviceId],
      );
      return rows.length === 0;
    });
    const many = looked.filter((host) => host.startsWith("many"));
    expect(many).toHaveLength(new Set(many).size);
    expect(new Set(many).size).toBe(30);
  } finally {
    await Promise.all(both.map((one) => one.stop()));
  }
});
