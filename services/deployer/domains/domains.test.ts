import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Domain, DomainService } from "../../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { newId } from "../../kit/ids.ts";
import { metricsText } from "../../kit/telemetry.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { startDns, type TestDns } from "./testing.ts";

const ADDRESS = "203.0.113.7";
const APP = {
  "package.json": JSON.stringify({ name: "app", scripts: { start: "node app.js" } }),
  "app.js": `require("http").createServer((req, res) => res.end(process.env.ANSWER + " " + req.headers["x-forwarded-host"]))
    .listen(process.env.PORT)`,
};

let berth: TestDeployer;
let dns: TestDns;
let hosts = 0;

beforeAll(async () => {
  dns = await startDns();
  berth = await startDeployer({
    DNS_SERVERS: dns.server,
    DOMAINS_TARGET: "apps.berth.test",
    DOMAINS_ADDRESSES: ADDRESS,
  });
});
afterAll(async () => {
  await berth?.stop();
  await dns?.stop();
});

/** A host name that no other test has. */
const nextHost = (prefix = "shop") => `${prefix}.example${++hosts}.com`;

/** A web service in an account of its own, and what its owner does with its domains. */
async function scene(more: { accountId?: string; answer?: string } = {}) {
  const config = { env: { ANSWER: more.answer ?? "one" } };
  const made = more.accountId
    ? await inAccount(more.accountId, config)
    : await createWebService(berth.port, { config });
  const { path, accountId } = made;
  const client = clientAs(DomainService, berth.port, { accountId, role: "owner" });
  const list = async () => (await client.listDomains({ ...path, limit: 100 })).data;
  const get = (domainId: string) => client.getDomain({ ...path, domainId });
  return {
    ...made,
    client,
    list,
    get,
    add: (host: string, redirectTo?: string) => client.createDomain({ ...path, host, redirectTo }),
    check: (domainId: string) => client.checkDomain({ ...path, domainId }),
    remove: (domainId: string) => client.deleteDomain({ ...path, domainId }),
    until: (domainId: string, state: string) =>
      eventually(`the domain is ${state}`, async () => {
        const found = await get(domainId);
        return found.state === state && found;
      }),
    deploy: async () => {
      const { version } = await made.deployArchive(path, await archiveOf(APP));
      await made.until(path, version, "applied");
      await made.untilService(path, "running");
    },
  };
}

async function inAccount(accountId: string, config: object) {
  const acting = actAs(berth.port, accountId);
  const environment = await acting.environment();
  const { id } = await acting.catalog.createService({ ...environment, name: "web", type: "web", config });
  return { ...acting, environment, id, path: environment.at("web") };
}

const recordOf = ({ records }: Domain, type: string) => {
  const found = records.find((one) => one.type === type);
  if (!found) throw new Error(`no ${type} record among ${JSON.stringify(records)}`);
  return found;
};
/** Creates the record that proves a domain. */
function prove(domain: Domain, type: "TXT" | "CNAME") {
  const { name, value } = recordOf(domain, type);
  dns.set(name, { [type]: [value] });
}

/** Sends a GET to the router with this Host header. */
async function visit(host: string, path = "/"): Promise<{ status: number; body: string; location?: string }> {
  const port = berth.env.ROUTER_PORT;
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: "127.0.0.1", port, path, headers: { host } }, async (answer) => {
      let body = "";
      for await (const part of answer) body += part;
      resolve({ status: answer.statusCode!, body, location: answer.headers.location });
    });
    outgoing.on("error", reject).end();
  });
}

describe("a domain", () => {
  test("is served once DNS proves it, also late, and no longer after it is removed", async () => {
    const { add, check, remove, until, deploy, get, list, accountId } = await scene();
    await deploy();
    const host = nextHost();
    const added = await add(`${host.toUpperCase()}.`);
    expect(added).toMatchObject({ host, state: "pending_dns" });
    expect(recordOf(added, "CNAME")).toMatchObject({ name: host, purpose: "both", found: false });
    const waiting = await eventually("it was looked up", async () => {
      const found = await get(added.id);
      return found.checkedAt && found;
    });
    expect(waiting).toMatchObject({ state: "pending_dns", message: expect.stringContaining("No record") });
    expect((await visit(host)).status).toBe(404);

    prove(added, "CNAME");
    await check(added.id);
    const active = await until(added.id, "active");
    expect(recordOf(active, "CNAME").found).toBe(true);
    expect(active.activatedAt).toBeDefined();
    expect(await visit(host)).toMatchObject({ status: 200, body: `one ${host}` });
    expect(await visit(`${host.toUpperCase()}:443`)).toMatchObject({ status: 200 });
    await eventually("the event is published", async () =>
      (await berth.eventsOf(accountId)).includes("DomainActivated"),
    );

    await remove(added.id);
    await eventually("it is no longer served", async () => (await visit(host)).status === 404);
    expect(await list()).toEqual([]);
    expect(await refused(get(added.id))).toContain("not_found");
  });

  test("that is proved before the first deploy is served after it", async () => {
    const { add, until, deploy } = await scene();
    const host = nextHost();
    const added = await add(host);
    prove(added, "TXT");
    const waiting = await until(added.id, "verifying");
    expect(waiting.message).toContain("deploy it");
    await deploy();
    const active = await until(added.id, "active");
    expect(active.message).toContain("does not lead here");
    expect((await visit(host)).status).toBe(200);
  });

  test("that redirects answers 308 with the same path and query, by the scheme of the request", async () => {
    const { add, until, deploy } = await scene();
    await deploy();
    const apex = nextHost("example").replace(/^example\./, "");
    const added = await add(`www.${apex}`, apex);
    prove(added, "TXT");
    await until(added.id, "active");
    expect(await visit(`www.${apex}`, "/a/b?c=d")).toMatchObject({
      status: 308,
      location: `//${apex}/a/b?c=d`,
    });
    expect(await visit(`www.${apex}`, "//evil.example/")).toMatchObject({
      location: `//${apex}//evil.example/`,
    });
  });

  test("at the apex is to have the installation's addresses and a TXT record", async () => {
    const { add, until, deploy } = await scene();
    await deploy();
    const host = nextHost("x").slice(2);
    const added = await add(host);
    expect(added.records.map(({ type, value }) => (type === "A" ? value : type))).toEqual([ADDRESS, "TXT"]);
    dns.set(host, { A: [ADDRESS] });
    const leading = await until(added.id, "verifying");
    expect([recordOf(leading, "A").found, leading.message]).toEqual([true, expect.stringContaining("TXT")]);
    prove(added, "TXT");
    expect((await until(added.id, "active")).message).toBeUndefined();
  });

  test("stays served through deploys and renames", async () => {
    const { add, until, deploy, catalog, path, untilService } = await scene();
    await deploy();
    const host = nextHost();
    const added = await add(host);
    prove(added, "CNAME");
    await until(added.id, "active");
    await deploy();
    expect((await visit(host)).status).toBe(200);
    await catalog.updateService({ ...path, name: "renamed" });
    await untilService({ ...path, service: "renamed" }, "running");
    expect((await visit(host)).status).toBe(200);
  });
});

describe("nobody gets another's traffic:", () => {
  test("of two accounts that add a host at once, the one that proves it has it", async () => {
    const [one, other] = await Promise.all([scene({ answer: "one" }), scene({ answer: "other" })]);
    await Promise.all([one.deploy(), other.deploy()]);
    const host = nextHost();
    const [first, second] = await Promise.all([one.add(host), other.add(host)]);
    expect(recordOf(first, "TXT").value).not.toBe(recordOf(second, "TXT").value);
    prove(second, "TXT");
    await Promise.all([one.check(first.id), other.check(second.id)]);
    await other.until(second.id, "active");
    expect((await visit(host)).body).toContain("other");
    expect((await one.get(first.id)).state).toBe("pending_dns");

    // Both prove it: it stays where it is, and the other is not told whose it is.
    const { name } = recordOf(first, "TXT");
    dns.set(name, { TXT: [recordOf(first, "TXT").value, recordOf(second, "TXT").value] });
    await one.check(first.id);
    const elsewhere = await one.until(first.id, "verifying");
    expect(elsewhere.message).toContain("served elsewhere on this installation");
    expect(JSON.stringify(elsewhere.message)).not.toContain(other.accountId);
    expect((await visit(host)).body).toContain("other");

    // It moves at once when the record of who has it is gone.
    dns.set(name, { TXT: [recordOf(first, "TXT").value] });
    await one.check(first.id);
    await one.until(first.id, "active");
    expect((await visit(host)).body).toContain("one");
    expect(await other.until(second.id, "failed")).toMatchObject({
      message: expect.stringContaining("Somebody else"),
    });
    await eventually("the event is published", async () =>
      (await berth.eventsOf(other.accountId)).includes("DomainFailed"),
    );
  });

  test("both proving it at the same moment leads to one that has it", async () => {
    const both = await Promise.all([scene(), scene()]);
    await Promise.all(both.map(({ deploy }) => deploy()));
    const host = nextHost();
    const added = await Promise.all(both.map(({ add }) => add(host)));
    dns.set(recordOf(added[0]!, "TXT").name, { TXT: added.map((one) => recordOf(one, "TXT").value) });
    await Promise.all(both.map(({ check }, at) => check(added[at]!.id)));
    await eventually("one has it", async () => {
      const states = await Promise.all(both.map(async ({ get }, at) => (await get(added[at]!.id)).state));
      return states.toSorted().join() === "active,verifying";
    });
    const { rows } = await berth.pool.query("select from domains where host = $1 and proved_at is not null", [
      host,
    ]);
    expect(rows).toHaveLength(1);
  });

  test("a record that was left behind proves nothing for the next account, and it is let go for its TXT record", async () => {
    const [one, other] = await Promise.all([scene({ answer: "one" }), scene({ answer: "other" })]);
    await Promise.all([one.deploy(), other.deploy()]);
    const host = nextHost();
    const first = await one.add(host);
    prove(first, "CNAME");
    await one.check(first.id);
    await one.until(first.id, "active");
    await one.remove(first.id);
    const second = await other.add(host);
    await eventually("it was looked up without a result", async () => {
      const found = await other.get(second.id);
      return found.checkedAt !== undefined && found.state !== "active";
    });
    expect((await visit(host)).status).toBe(404);
    prove(second, "TXT");
    await other.check(second.id);
    await other.until(second.id, "active");
    expect((await visit(host)).body).toContain("other");
  });

  test("a host is not served for a service that was deleted, nor for the next one of the same names", async () => {
    const first = await scene({ answer: "one" });
    await first.deploy();
    const host = nextHost();
    const added = await first.add(host);
    prove(added, "CNAME");
    await first.until(added.id, "active");
    await first.catalog.deleteService({ ...first.path, confirmImpact: true });
    const isGone = () =>
      first.catalog.getService(first.path).then(
        () => false,
        () => true,
      );
    await eventually("it is removed", isGone);
    expect((await visit(host)).status).toBe(404);
    const { environment, catalog } = first;
    await eventually("its name is free", async () => {
      const again = { ...environment, name: "web", type: "web", config: { env: { ANSWER: "two" } } };
      return catalog.createService(again).then(
        () => true,
        () => false,
      );
    });
    await first.deploy();
    const again = await first.add(host);
    await eventually("it was looked up", async () => (await first.get(again.id)).checkedAt !== undefined);
    expect((await first.get(again.id)).state).not.toBe("active");
    expect((await visit(host)).status).toBe(404);
  });
});

test("a host moves to the account that waits for it as soon as the service that had it is deleted", async () => {
  const [one, other] = await Promise.all([scene({ answer: "one" }), scene({ answer: "other" })]);
  await Promise.all([one.deploy(), other.deploy()]);
  const host = nextHost();
  const [first, second] = [await one.add(host), await other.add(host)];
  prove(first, "CNAME");
  await one.check(first.id);
  await one.until(first.id, "active");
  prove(second, "TXT");
  await other.check(second.id);
  await other.until(second.id, "verifying");
  // It has waited for long, and is looked up rarely.
  const wait = "update domains set checks = 30, due_at = now() + interval '1 day' where id = $1";
  await berth.pool.query(wait, [second.id]);
  await one.catalog.deleteService({ ...one.path, confirmImpact: true });
  await other.until(second.id, "active");
  expect((await visit(host)).body).toContain("other");
});

describe("a proof that is gone", () => {
  test("is warned of, and after 7 days the host is no longer served until it is back", async () => {
    const { add, until, deploy, check, get, accountId } = await scene();
    await deploy();
    const host = nextHost();
    const added = await add(host);
    prove(added, "CNAME");
    await until(added.id, "active");
    dns.clear(host);
    await check(added.id);
    await eventually("it is warned of", async () => (await get(added.id)).message?.includes("is gone"));
    expect((await get(added.id)).state).toBe("active");
    expect((await visit(host)).status).toBe(200);
    await berth.pool.query("update domains set lost_at = now() - interval '8 days' where id = $1", [
      added.id,
    ]);

    dns.silence(true);
    await check(added.id);
    await eventually(
      "it was asked in vain",
      async () => {
        const { rows } = await berth.pool.query("select checks > 0 as tried from domains where id = $1", [
          added.id,
        ]);
        return rows[0].tried;
      },
      30_000,
    );
    dns.silence(false);
    expect((await get(added.id)).state).toBe("active");
    expect((await visit(host)).status).toBe(200);

    await check(added.id);
    expect(await until(added.id, "failed")).toMatchObject({ message: expect.stringContaining("7 days") });
    expect((await visit(host)).status).toBe(404);
    await eventually("the event is published", async () =>
      (await berth.eventsOf(accountId)).includes("DomainFailed"),
    );
    prove(added, "CNAME");
    await check(added.id);
    await until(added.id, "active");
    expect((await visit(host)).status).toBe(200);
  });
});

test("a host name that is too long for a TXT record beside it is proved by its CNAME alone, and let go without it", async () => {
  const { add, until, deploy, check, get } = await scene();
  await deploy();
  const host = nextHost(Array.from({ length: 4 }, (_, n) => String(n).repeat(57)).join("."));
  expect(`_berth-challenge.${host}`.length).toBeGreaterThan(253);
  const added = await add(host);
  await eventually("it was looked up", async () => (await get(added.id)).message?.includes("No record"));
  expect(added.records.map(({ type }) => type)).toEqual(["CNAME"]);
  prove(added, "CNAME");
  await check(added.id);
  await until(added.id, "active");
  dns.clear(host);
  await check(added.id);
  await eventually("it is warned of", async () => (await get(added.id)).message?.includes("is gone"));
});

test("how long domains have waited for their certificates is in the metrics, as long as they are not issued", async () => {
  const { add, until, deploy } = await scene();
  await deploy();
  const added = await add(nextHost());
  prove(added, "CNAME");
  await until(added.id, "active");
  const read = async () => {
    const text = await metricsText();
    const value = (name: string) => Number(new RegExp(`^${name}\\S* (\\S+)$`, "m").exec(text)?.[1]);
    return {
      count: value("berth_domains_without_certificate(?!_)"),
      hours: Math.floor(value("berth_domains_without_certificate_oldest_seconds") / 3_600),
    };
  };
  expect(await read()).toEqual({ count: 0, hours: 0 });
  const become = (state: string) =>
    berth.pool.query(
      "update domains set state = $2, proved_at = now() - interval '7 hours', due_at = now() + interval '1 day' where id = $1",
      [added.id, state],
    );
  for (const state of ["issuing", "failed"]) {
    await become(state);
    expect(await read()).toEqual({ count: 1, hours: 7 });
  }
  await become("active");
  expect(await read()).toEqual({ count: 0, hours: 0 });
});

describe("what is refused", () => {
  test.each([
    ["not a host", "invalid_host"],
    ["https://shop.example.com", "invalid_host"],
    ["shop.example.com:443", "invalid_host"],
    ["shop_1.example.com", "invalid_host"],
    ["shop", "invalid_host"],
    ["-a.example.com", "invalid_host"],
    ["a..example.com", "invalid_host"],
    [`${"a".repeat(64)}.example.com`, "invalid_host"],
    ["203.0.113.9", "host_not_allowed"],
    ["127.1", "host_not_allowed"],
    ["*.example.com", "host_not_allowed"],
    ["co.uk", "host_not_allowed"],
    ["github.io", "host_not_allowed"],
    ["apps.berth.test", "host_not_allowed"],
    ["x.apps.berth.test", "host_not_allowed"],
    ["web.localhost", "host_not_allowed"],
  ])("%s", async (host, reason) => {
    const { add } = await scene();
    expect(await refused(add(host))).toBe(`422 validation_failed ${reason}`);
  });

  test("names in other scripts become Punycode", async () => {
    const { add } = await scene();
    expect((await add(`Bücher.example${++hosts}.de`)).host).toBe(`xn--bcher-kva.example${hosts}.de`);
  });

  test("the same host twice in an account, another's service, a worker, and a redirect to itself", async () => {
    const { add, accountId, path, client, environment, catalog } = await scene();
    const host = nextHost();
    const { id: domainId } = await add(host);
    const next = await scene({ accountId });
    expect(await refused(next.add(host))).toContain("domain_exists");
    expect((await add(nextHost(), host)).redirectTo).toBe(host);
    const itself = nextHost();
    expect(await refused(add(itself, itself.toUpperCase()))).toContain("invalid_host");
    await catalog.createService({ ...environment, name: "jobs", type: "worker" });
    const worker = client.createDomain({ ...environment.at("jobs"), host: nextHost() });
    expect(await refused(worker)).toContain("not_web");
    await catalog.createService({ ...environment, name: "inner", type: "web", config: { public: false } });
    const inner = client.createDomain({ ...environment.at("inner"), host: nextHost() });
    expect(await refused(inner)).toContain("not_public");
    const strangerId = newId("acc");
    const stranger = clientAs(DomainService, berth.port, { accountId: strangerId, role: "owner" });
    const theirs = { ...path, accountId: strangerId };
    const asked = [
      stranger.getDomain({ ...theirs, domainId }),
      stranger.deleteDomain({ ...theirs, domainId }),
      stranger.checkDomain({ ...theirs, domainId }),
      stranger.listDomains(theirs),
      next.client.getDomain({ ...next.path, domainId }),
    ].map(refused);
    for (const answer of await Promise.all(asked)) expect(answer).toContain("not_found");
    const reader = clientAs(DomainService, berth.port, { accountId, role: "reader" });
    expect((await reader.listDomains(path)).data).not.toEqual([]);
    expect(await refused(reader.deleteDomain({ ...path, domainId }))).toContain("403");
  });
});
