import { afterAll, beforeAll, expect, test } from "vitest";
import { DomainService } from "../../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { startDns, type TestDns } from "./testing.ts";

let berth: TestDeployer;
let dns: TestDns;
beforeAll(async () => {
  dns = await startDns();
  berth = await startDeployer({ DEFAULT_TIER: "free", DOMAINS_WILDCARD: "on", DNS_SERVERS: dns.server });
});
afterAll(async () => {
  await berth?.stop();
  await dns?.stop();
});

async function owner() {
  const { path, accountId } = await createWebService(berth.port);
  const client = clientAs(DomainService, berth.port, { accountId, role: "owner" });
  return { add: (host: string) => client.createDomain({ ...path, host }), client, path };
}

test("an account of the free plan has one domain, also when two are added at once, and another once it is removed", async () => {
  const { add, client, path } = await owner();
  const both = await Promise.allSettled([add("a.one.example"), add("b.one.example")]);
  expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  const refusedOne = await refusal(add("c.one.example"));
  expect(refusedOne).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 1 } });
  expect(refusedOne.message).toContain("domains are limited to 1");
  const { data } = await client.listDomains(path);
  await client.deleteDomain({ ...path, domainId: data[0]!.id });
  expect((await add("c.one.example")).host).toBe("c.one.example");
});

test("a wildcard is taken where the operator allows it, and proved beside the names that it stands for", async () => {
  const { add } = await owner();
  const { host, records } = await add("*.Shop.example");
  expect(host).toBe("*.shop.example");
  expect(records.map(({ type, name }) => `${type} ${name}`)).toEqual(["TXT _berth-challenge.shop.example"]);
  for (const wrong of ["*.*.shop.example", "a.*.shop.example", "*"])
    expect(await refused(add(wrong))).toContain("invalid_host");
  expect(await refused(add("*.co.uk"))).toContain("host_not_allowed");
});

test("domains that are not due ask nothing of anybody", async () => {
  const { add, client, path } = await owner();
  const { id: domainId } = await add("idle.example");
  await eventually("it was looked up", async () => {
    const { rows } = await berth.pool.query("select from domains where id = $1 and checks > 0", [domainId]);
    return rows.length === 1;
  });
  await berth.pool.query(
    `insert into domains (id, account_id, service_id, host, state, proved_at, due_at)
     select 'dom_idle' || n, account_id, service_id, 'idle' || n || '.example', 'active', now(), now() + interval '1 day'
     from domains, generate_series(1, 10000) n where id = $1`,
    [domainId],
  );
  await berth.pool.query("update domains set due_at = now() + interval '1 day'");
  await berth.pool.query("analyze domains");
  const { rows } = await berth.pool.query(
    "explain (format json) select id from domains where due_at <= now() order by due_at limit 10 for update skip locked",
  );
  expect(JSON.stringify(rows[0])).toContain("domains_due");
  const asked = dns.asked();
  await client.checkDomain({ ...path, domainId });
  await eventually("the one that is due was looked up", async () => {
    const { rows: due } = await berth.pool.query("select from domains where id = $1 and due_at > now()", [
      domainId,
    ]);
    return due.length === 1 && dns.asked() > asked;
  });
  // TXT, A and AAAA of one host, and those again where a packet is lost.
  expect(dns.asked() - asked).toBeLessThan(10);
});
