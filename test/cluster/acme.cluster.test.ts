import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { readRun } from "../support/cluster-run.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { startAcme, VALID_SECONDS, visit } from "./acme.ts";
import { connectKubectl, type Kubectl } from "./kubectl.ts";
import { saying, webService } from "./web-service.ts";

// Domains get certificates from a certificate authority (Pebble) by cert-manager, as in production: by HTTP-01.

const MINUTES = 60_000;

type Domain = {
  id: string;
  state: string;
  message?: string;
  records: { type: string; name: string; value: string }[];
};

let world: Platform;
let kubectl: Kubectl;
let acme: Awaited<ReturnType<typeof startAcme>>;
let node: string;

beforeAll(async () => {
  node = (await readRun()).ingress.address;
  [world, kubectl] = await Promise.all([openPlatform(), connectKubectl()]);
  acme = await startAcme(kubectl);
}, 5 * MINUTES);

afterAll(async () => {
  await acme?.stop();
  await world?.stop();
});

/** Adds a domain to a service of its own, and creates its records as a user does. */
async function addDomain(words: string) {
  const { S, id, live } = await webService(world);
  await live({ "package.json": '{"scripts":{"start":"node app.js"}}', "app.js": saying(words) });
  const host = `shop.${id.toLowerCase().replaceAll("_", "-")}.example.com`;
  const { id: domainId, records } = await world.must<Domain>("POST", `${S}/domains`, { host });
  const get = () => world.must<Domain>("GET", `${S}/domains/${domainId}`);
  return {
    ...{ host, get },
    async point() {
      const recordOf = (type: string) => records.find((one) => one.type === type)!;
      const [cname, txt] = [recordOf("CNAME"), recordOf("TXT")];
      acme.dns.set(host, { CNAME: [cname.value], A: [node] });
      acme.dns.set(cname.value, { A: [node] });
      acme.dns.set(txt.name, { TXT: [txt.value] });
      await world.must("POST", `${S}/domains/${domainId}/check`);
    },
    until: (state: string) =>
      eventually(
        `the domain is ${state}`,
        async () => {
          const found = await get();
          return found.state === state && found;
        },
        240_000,
      ),
  };
}

test(
  "a domain has no certificate before its records exist; then it gets one, which is renewed in time",
  async () => {
    const domain = await addDomain("hello");
    expect((await domain.get()).state).toBe("pending_dns");
    expect(await kubectl.call("get", "certificates", "-A", "-o", "name")).not.toContain("domain.");
    await domain.point();
    await domain.until("active");
    const first = await visit(domain.host);
    expect(first.body).toContain("hello");
    expect(first.certificate.issuer.CN).toMatch(/^Pebble/);
    expect(first.certificate.subjectaltname).toBe(`DNS:${domain.host}`);
    await eventually(
      "it is renewed",
      async () => {
        const { certificate, body } = await visit(domain.host);
        expect(body).toContain("hello");
        expect(Date.parse(certificate.valid_to)).toBeGreaterThan(Date.now());
        return certificate.serialNumber !== first.certificate.serialNumber;
      },
      VALID_SECONDS * 1_000,
    );
    expect((await domain.get()).state).toBe("active");
  },
  15 * MINUTES,
);

test(
  "while the certificate authority is down a domain waits, and it is served once the authority is back",
  async () => {
    const domain = await addDomain("later");
    acme.pebble.kill("SIGSTOP");
    try {
      await domain.point();
      await domain.until("issuing");
      await eventually("a certificate is asked for", async () =>
        (await kubectl.call("get", "certificates", "-A", "-o", "name")).includes("domain."),
      );
      expect((await domain.get()).state).toBe("issuing");
    } finally {
      acme.pebble.kill("SIGCONT");
    }
    await domain.until("active");
    expect((await visit(domain.host)).body).toContain("later");
  },
  15 * MINUTES,
);
