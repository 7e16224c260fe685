import { parseArgs } from "node:util";
import { createLog } from "../kit/log.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { checkClock } from "./set-up/clock.ts";
import { type Finding, unseen } from "./set-up/finding.ts";
import { checkRights } from "./set-up/rights.ts";
import { checkSold } from "./set-up/sold.ts";
import { checkTaxes } from "./set-up/taxes.ts";
import { checkWebhook } from "./set-up/webhook.ts";
import { createProvider } from "./stripe/provider.ts";
import { stripeFields } from "./stripe/stripe-config.ts";

const USAGE = `npm run stripe:check [-- --webhook ORIGIN]

Proves that Stripe is set up, and changes nothing: the rights of the key in STRIPE_SECRET_KEY, the prices, and the clock.
With STRIPE_TAX=on, also that Stripe Tax can add taxes. With STRIPE_INSTALLATION, as set for the installation, also that what it sells is kept apart.
With --webhook, also that Stripe reports to the installation at ORIGIN, such as https://berth.example.com, and that the
installation takes it, with STRIPE_WEBHOOK_SECRETS. Exits with 1 if something is wrong.
`;

/** What no request shows. */
const SETTINGS = [
  "Failed payments: set four retries within 14 days, and then cancel the subscription (Dashboard: Billing, Revenue recovery).",
  "Metered use: leave draft invoices their hour before they are finalized (Dashboard: Billing, Invoices).",
];

type Options = { env: Record<string, string | undefined>; webhook: string | undefined };

async function check({ env, webhook }: Options): Promise<Finding[]> {
  const { stripeWebhookSecrets: secrets, ...options } = readConfig(env, stripeFields);
  if (options.stripeKey === undefined)
    throw new Error("STRIPE_SECRET_KEY is not set: the key of the installation is needed.");
  const given = webhook && url("--webhook", ["https", "http"]).parse(webhook);
  const origin = given?.replace(/\/$/, "");
  const provider = createProvider(options, createLog("stripe-check", "silent"));
  const { live, installation, addsTax } = provider;
  const found = await provider.ask(async (stripe) => [
    ...(await checkRights(stripe, addsTax)),
    ...(await checkSold(stripe, installation)),
    ...(addsTax ? await checkTaxes(stripe, installation) : []),
    await checkClock(stripe),
    ...(origin ? await checkWebhook(stripe, { origin, secrets, live, installation }) : []),
  ]);
  const left = origin ? [] : ["Webhooks: give --webhook ORIGIN to check them."];
  return [...found, ...[...left, ...SETTINGS].map(unseen)];
}

const MARKS: Record<Finding["state"], string> = { fine: "ok     ", wrong: "WRONG  ", unseen: "to see " };

const toLine = ({ state, text, remedy }: Finding) =>
  `${MARKS[state]}${text}${remedy === undefined ? "" : `\n       ${remedy}`}`;

async function main(): Promise<Done> {
  const { values } = parseArgs({ options: { webhook: { type: "string" }, help: { type: "boolean" } } });
  if (values.help) return { output: USAGE, exitCode: 0 };
  const findings = await check({ env: process.env, webhook: values.webhook });
  const isWrong = findings.some(({ state }) => state === "wrong");
  return { output: `${findings.map(toLine).join("\n")}\n`, exitCode: isWrong ? 1 : 0 };
}

if (import.meta.main) await runCommand(main);
