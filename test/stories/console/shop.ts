import { randomBytes } from "node:crypto";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageStartedSchema, UsageStoppedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../../services/kit/events/outbox.ts";
import { newId } from "../../../services/kit/ids.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { seededStripe } from "../../support/servers/seeded-stripe.ts";
import { startWorld, type World } from "../../support/world.ts";

/** Starts a platform in which plans are for sale, at a simulator of Stripe; accounts begin on the free plan. */
export async function openShop(): Promise<World & { stripe: Awaited<ReturnType<typeof seededStripe>> }> {
  // Nothing listens there: where the platform is, is known later.
  const stripe = await seededStripe({ webhookUrl: "http://127.0.0.1:1/" });
  const world = await startWorld({ ...stripe.env, DEFAULT_TIER: "free", PLAN_QUOTAS: "off" });
  const [endpoint] = (await stripe.stripe.webhookEndpoints.list()).data;
  await stripe.stripe.webhookEndpoints.update(endpoint!.id, { url: `${world.origin}/webhooks/stripe` });
  const stop = async () => {
    await world.stop();
    await stripe.stop();
  };
  return { ...world, stripe, stop };
}

/** Another account, on the free plan, in which a service has run for three days. Returns its path. */
export async function accountWithUsage(world: World, service: string): Promise<string> {
  const handle = `h${randomBytes(5).toString("hex")}`;
  const { id: accountId } = await world.must<{ id: string }>("POST", "/accounts", { handle });
  const { id: serviceId } = await world.must<{ id: string }>("GET", service);
  const pool = createPool(world.database.url("deployer"));
  const ids = { accountId, projectId: "prj_1", environmentId: "env_1", serviceId };
  const common = { ...ids, serviceType: "web", intervalId: newId("uin"), size: "large", replicas: 2 };
  const at = (ms: number) => timestampFromMs(Date.now() - ms);
  await emit(pool, UsageStartedSchema, accountId, { ...common, seq: 0, at: at(3 * 86_400_000) });
  await emit(pool, UsageStoppedSchema, accountId, { ...common, seq: 1, at: at(0) });
  await pool.end();
  await eventually("it is counted", async () => {
    const { accruedUsd } = await world.must<{ accruedUsd: number }>(
      "GET",
      `/accounts/${accountId}/compute-usage`,
    );
    return accruedUsd > 0;
  });
  return `/accounts/${accountId}`;
}

/** Pays the pro plan for an account, unless it has one. */
export async function subscribe(
  world: World,
  account = world.A,
  cadence: "monthly" | "annual" = "monthly",
  card = "4242 4242 4242 4242",
): Promise<void> {
  const path = `${account}/subscription`;
  const isThere = async () => (await world.call("GET", path)).status === 200;
  if (await isThere()) return;
  const choice = { tierId: "pro", cadence };
  const { checkoutUrl } = await world.must<{ checkoutUrl: string }>("POST", path, choice);
  const form = new URLSearchParams({ action: "pay", card_number: card });
  await fetch(checkoutUrl, { method: "POST", body: form, redirect: "manual" });
  await eventually("the plan is there", isThere);
}
