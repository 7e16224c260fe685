import { parseArgs } from "node:util";
import { createLog } from "../kit/log.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { seed } from "./catalog/seed.ts";
import { createProvider } from "./stripe/provider.ts";
import { stripeFields } from "./stripe/stripe-config.ts";
import { ensureWebhookEndpoint } from "./stripe/webhook-endpoint.ts";

const USAGE = `npm run stripe:seed [-- --webhook ORIGIN]

Makes at Stripe what Berth sells, as far as it is missing, with the key in STRIPE_SECRET_KEY.
With --webhook, Stripe also reports to the installation at ORIGIN, such as https://berth.example.com.
`;

type Options = { env: Record<string, string | undefined>; webhook: string | undefined };

/** Runs the command. Returns what it prints. */
async function run({ env, webhook }: Options): Promise<string> {
  const { stripeKey, stripeUrl } = readConfig(env, stripeFields);
  if (stripeKey === undefined)
    throw new Error("STRIPE_SECRET_KEY is not set: a secret key of Stripe is needed.");
  const origin = webhook && url("--webhook", ["https", "http"]).parse(webhook);
  const provider = createProvider({ stripeKey, stripeUrl }, createLog("stripe-seed", "silent"));
  const lines = (await seed(provider)).map((name) => `made ${name}`);
  if (lines.length === 0) lines.push("Everything was there; nothing was changed.");
  if (origin) lines.push(describe(origin, await ensureWebhookEndpoint(provider, origin)));
  return lines.join("\n");
}

function describe(origin: string, secret: string | undefined): string {
  if (secret === undefined)
    return `Stripe reports to ${origin} already; its signing secret stands in the Dashboard.`;
  return `Stripe reports to ${origin}. Set this once as STRIPE_WEBHOOK_SECRETS, it is not shown again:\n${secret}`;
}

async function main(): Promise<Done> {
  const { values } = parseArgs({ options: { webhook: { type: "string" }, help: { type: "boolean" } } });
  const printed = values.help ? USAGE : `${await run({ env: process.env, webhook: values.webhook })}\n`;
  return { output: printed, exitCode: 0 };
}

if (import.meta.main) await runCommand(main);
