import { afterAll, beforeAll, expect, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Ingress, Secret } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { certificateName, hostObjectName } from "../../services/deployer/runtime/kubernetes/release/hosts.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { saying, webService } from "./web-service.ts";

const MINUTES = 60_000;

type Domain = { id: string; state: string; records: { type: string; name: string; value: string }[] };

let world: Platform;
let kube: Kube;
beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

test(
  "a domain waits for its records, and none of it reaches the cluster before",
  async () => {
    const { S, id, live } = await webService(world);
    await live({ "package.json": '{"scripts":{"start":"node app.js"}}', "app.js": saying("hello") });
    const host = `shop.${id.toLowerCase().replaceAll("_", "-")}.example.com`;
    const made = await world.must<Domain>("POST", `${S}/domains`, { host });
    expect(made).toMatchObject({ state: "pending_dns" });
    expect(made.records.map(({ type }) => type)).toEqual(["CNAME", "TXT"]);
    const looked = await eventually("it was looked up", async () => {
      const found = await world.must<Domain & { checkedAt?: string }>("GET", `${S}/domains/${made.id}`);
      return found.checkedAt !== undefined && found;
    });
    expect(["pending_dns", "verifying"]).toContain(looked.state);
    const labels = selector({ [label("service")]: id });
    const { items } = await kube.list(Ingress, { labels });
    expect(items.map(({ metadata }) => metadata?.name)).not.toContain(hostObjectName(host));
    const secrets = await kube.listMetadata(Secret, {
      namespace: items[0]!.metadata!.namespace!,
      labels: "",
    });
    expect(secrets.map(({ name }) => name)).not.toContain(certificateName(hostObjectName(host)));
    await world.must("DELETE", `${S}/domains/${made.id}`);
  },
  5 * MINUTES,
);
