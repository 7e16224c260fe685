import { parseArgs } from "node:util";
import { createLog } from "../kit/log.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { seed } from "./pricing/seed.ts";
import { createProvider } from "./stripe/provider.ts";
import { stripeFields } from "./stripe/stripe-config.ts";
import { ensureWebhookEndpoint } from "./stripe/webhook-endpoint.ts";

const USAGE = `npm run stripe:seed [-- --webhook ORIGIN]

Makes at Stripe what Berth sells, as far as it is missing, with the key in STRIPE_SECRET_KEY. With STRIPE_INSTALLATION, for
the installation of that name: one that shares the account at Stripe with another. With STRIPE_TAX=on, prices say that
taxes are added to them, which cannot be changed later.
With --webhook, Stripe also reports to the installation at ORIGIN, such as https://berth.example.com.
`;

type Options = { env: Record<string, string | undefined>; webhook: string | undefined };

/** Runs the command. Returns what it prints. */
async function run({ env, webhook }: Options): Promise<string> {
  const { stripeKey, stripeUrl, stripeInstallation, stripeTax } = readConfig(env, stripeFields);
  if (stripeKey === undefined)
    throw new Error("STRIPE_SECRET_KEY is not set: a secret key of Stripe is needed.");
  const origin = webhook && url("--webhook", ["https", "http"]).parse(webhook);
  const provider = createProvider(
    { stripeKey, stripeUrl, stripeInstallation, stripeTax },
    createLog("stripe-seed", "silent"),
  );
  const lines = (await seed(provider)).map((name) => `made ${name}`);
  if (lines.length === 0) lines.push("Everything already exists; nothing was changed.");
  if (stripeInstallation) lines.unshift(`For the installation ${stripeInstallation}:`);
  if (origin) lines.push(describe(origin, await ensureWebhookEndpoint(provider, origin)));
  return lines.join("\n");
}

function describe(origin: string, secret: string | undefined): string {
  if (secret === undefined)
    return `Stripe already has a webhook endpoint for ${origin}; its signing secret is in the Dashboard.`;
  return `Stripe now sends webhooks to ${origin}. Set STRIPE_WEBHOOK_SECRETS to this secret, which is not shown again:\n${secret}`;
}

async function main(): Promise<Done> {
  const { values } = parseArgs({ options: { webhook: { type: "string" }, help: { type: "boolean" } } });
  const printed = values.help ? USAGE : `${await run({ env: process.env, webhook: values.webhook })}\n`;
  return { output: printed, exitCode: 0 };
}

if (import.meta.main) await runCommand(main);
