import { afterAll, beforeAll, expect, test } from "vitest";
import { createLookUp } from "./look-up.ts";
import { challengeName, targetOf, tokenOf } from "./records.ts";
import { startDns, type TestDns } from "./testing.ts";

let dns: TestDns;
beforeAll(async () => {
  dns = await startDns();
});
afterAll(() => dns?.stop());

test("a look-up that takes too long ends, and knows the records that it found by then", async () => {
  const settings = { target: "apps.example", addresses: [], wildcard: false, reserved: [] };
  const claim = { accountId: "acc_1", serviceId: "svc_1", host: "shop.example" };
  for (let link = 0; link < 7; link++)
    dns.set(link === 0 ? claim.host : `link${link}.example`, { CNAME: [`link${link + 1}.example`] });
  dns.set("link7.example", { CNAME: [targetOf(claim.serviceId, settings)!] });
  expect(await createLookUp([dns.server], settings)(claim)).toMatchObject({
    proof: "found",
    found: ["cname", "address"],
  });

  dns.slow(150);
  const hurried = createLookUp([dns.server], settings, 500);
  expect(await hurried(claim)).toMatchObject({ found: [], proof: "unknown" });
  dns.set(challengeName(claim.host), { TXT: [tokenOf(claim)] });
  expect(await hurried(claim)).toMatchObject({ found: ["txt"], proof: "found" });
});
