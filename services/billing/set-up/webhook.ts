import Stripe from "stripe";
import { fetch } from "../../kit/network/fetch.ts";
import { EVENT_TYPES } from "../stripe/event-types.ts";
import { WEBHOOK_PATH } from "../stripe/webhook-endpoint.ts";
import { type Finding, fine, unseen, wrong } from "./finding.ts";

type Installation = { origin: string; secrets: string[]; live: boolean; installation: string };

const TIMEOUT_MS = 10_000;

/** Returns whether Stripe reports to an installation all that it needs, and whether the installation takes it. */
export async function checkWebhook(stripe: Stripe, installation: Installation): Promise<Finding[]> {
  return [...(await checkEndpoint(stripe, installation)), ...(await checkDelivery(installation))];
}

async function checkEndpoint(stripe: Stripe, { origin, installation }: Installation): Promise<Finding[]> {
  const url = origin + WEBHOOK_PATH;
  const { data } = await stripe.webhookEndpoints.list({ limit: 100 });
  const found = data.find((endpoint) => endpoint.url === url);
  if (!found)
    return [
      wrong(`Stripe has no webhook endpoint for ${url}.`, `Run npm run stripe:seed -- --webhook ${origin}.`),
    ];
  const { status, api_version: version, enabled_events: enabled } = found;
  const all: string[] = EVENT_TYPES.flat();
  const missing = enabled.includes("*") ? [] : all.filter((type) => !enabled.includes(type));
  const findings = [
    ...(status === "enabled"
      ? []
      : [wrong("The webhook endpoint is disabled.", "Enable it in the Dashboard.")]),
    ...(version === Stripe.API_VERSION
      ? []
      : [
          wrong(
            `The webhook endpoint has the API version ${version ?? "of the account"}, not ${Stripe.API_VERSION}.`,
            "Delete it, and make it with npm run stripe:seed -- --webhook.",
          ),
        ]),
    ...(missing.length === 0
      ? []
      : [
          wrong(
            `The webhook endpoint lacks ${missing.join(", ")}.`,
            "Add these events to it in the Dashboard.",
          ),
        ]),
  ];
  const others = data
    .filter((one) => one.url !== url && one.url.endsWith(WEBHOOK_PATH))
    .map((one) => one.url);
  const shared = others.map((other) =>
    unseen(
      `Stripe reports to ${other} too. If that is another installation, ${installation === "" ? "it" : "each but one"} needs a STRIPE_INSTALLATION of its own.`,
    ),
  );
  return [...(findings.length > 0 ? findings : [fine(`Stripe reports everything to ${url}.`)]), ...shared];
}

/** Sends the installation an event of the other mode, which it verifies and ignores, with each secret. */
async function checkDelivery({ origin, secrets, live }: Installation): Promise<Finding[]> {
  if (secrets.length === 0)
    return [
      wrong(
        "STRIPE_WEBHOOK_SECRETS is not set.",
        "Set it to the signing secret of the webhook endpoint, as for the installation.",
      ),
    ];
  const findings: Finding[] = [];
  for (const [n, secret] of secrets.entries()) {
    const name = secrets.length > 1 ? `signing secret ${n + 1}` : "signing secret";
    const status = await send(origin, secret, !live);
    if (status === 200) findings.push(fine(`The installation takes webhooks with the ${name}.`));
    else if (status === 400)
      findings.push(
        wrong(
          `The installation refuses webhooks with the ${name}.`,
          "Give both the same STRIPE_WEBHOOK_SECRETS, and set the clock of this machine and of the installation.",
        ),
      );
    else
      findings.push(
        wrong(
          `${origin}${WEBHOOK_PATH} answers ${status ?? "nothing"}.`,
          "Check the address and the ingress: Stripe must reach it from the internet.",
        ),
      );
  }
  return findings;
}

async function send(origin: string, secret: string, livemode: boolean): Promise<number | undefined> {
  const created = Math.floor(Date.now() / 1_000);
  const about = { id: `evt_berthcheck${created}`, object: "event", type: "customer.updated", created };
  const payload = JSON.stringify({ ...about, livemode, data: { object: { object: "none" } } });
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({ payload, secret });
  const headers = { "content-type": "application/json", "stripe-signature": signature };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return (await fetch(origin + WEBHOOK_PATH, { method: "POST", headers, body: payload, signal })).status;
  } catch {
    return undefined;
  }
}
