import type { Webhook, WebhookDelivery } from "../../../typescript/src/generated/types.ts";
import type { AccountAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused } from "../../failure.ts";
import { ago } from "../../terminal/format.ts";
import { confirm } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";

const SHOWN_DELIVERIES = 20;

const list = command({
  name: "webhooks",
  summary: "List the webhooks of the account",
  about: ["Only owners may do this."],
  examples: [["webhooks", "URLs, what they get, and ids"]],
  async run(_input, ctx) {
    const { io } = ctx;
    const { accountId } = await ctx.at.account();
    const data = await webhooksOf(ctx, { accountId });
    if (io.json) return io.outJson({ data });
    const rows = data.map((each) => [
      io.shown(each.url),
      io.shown(each.events.join(" ")),
      each.enabled ? "enabled" : `disabled: ${each.disabledReason}`,
      each.id,
    ]);
    printTable(io, ["URL", "EVENTS", "STATE", "ID"], rows);
    return undefined;
  },
});

const add = command({
  name: "webhooks add",
  summary: "Send what happens in the account to a URL",
  args: "URL",
  arity: [1, 1],
  about: [
    "Prints the secret that signs requests. It is shown only now; `berth webhooks rotate` makes another one.",
  ],
  examples: [
    ["webhooks add https://hooks.example.com/berth", "all events"],
    ["webhooks add https://hooks.example.com/berth --event 'deploy.*'", "deployments only"],
    ["webhooks add https://hooks.slack.com/services/… --slack", "messages for Slack"],
  ],
  options: {
    event: { kind: "list", value: "KIND", about: "Only these, such as deploy.failed; may be repeated" },
    slack: { kind: "flag", about: "Send what Slack's incoming webhooks take" },
  },
  async run({ args: [url], options: { event, slack } }, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const body = {
      url: url!,
      ...(event.length > 0 && { events: event }),
      ...(slack && { format: "slack" as const }),
    };
    const made = await (await ctx.berth()).webhooks.create({ accountId }, body, { signal });
    if (io.json) return io.outJson(made);
    io.note(`  Added ${made.id}. Try it: berth webhooks test ${made.id}`);
    printSecret(ctx, made);
    return undefined;
  },
});

const remove = command({
  name: "webhooks remove",
  summary: "Remove a webhook with its deliveries",
  args: "WEBHOOK",
  arity: [1, 1],
  examples: [["webhooks remove https://hooks.example.com/berth", "by its URL or id; asks first"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { io, signal } = ctx;
    const { at, id, url } = await webhookOf(ctx, wanted!);
    const again = `berth webhooks remove ${id} --yes`;
    await confirm(io, `Remove ${url}? Nothing more is sent there, nor kept of what was.`, yes, again);
    await (await ctx.berth()).webhooks.delete(at, id, { signal });
    if (io.json) io.outJson({ removed: id });
    else io.note(`  Removed ${io.shown(url)}.`);
  },
});

const enable = command({
  name: "webhooks enable",
  summary: "Enable a webhook that was disabled",
  args: "WEBHOOK",
  arity: [1, 1],
  about: ["One that fails for three days is disabled by itself, and its owners are notified."],
  examples: [["webhooks enable https://hooks.example.com/berth", "after its receiver was repaired"]],
  run: ({ args: [wanted] }, ctx) => setEnabled(ctx, wanted!, true),
});

const disable = command({
  name: "webhooks disable",
  summary: "Send nothing more to a webhook for now",
  args: "WEBHOOK",
  arity: [1, 1],
  examples: [["webhooks disable https://hooks.example.com/berth", "then: berth webhooks enable"]],
  run: ({ args: [wanted] }, ctx) => setEnabled(ctx, wanted!, false),
});

const test = command({
  name: "webhooks test",
  summary: "Send a test event to a webhook",
  args: "WEBHOOK",
  arity: [1, 1],
  examples: [["webhooks test https://hooks.example.com/berth", "then: berth webhooks deliveries"]],
  async run({ args: [wanted] }, ctx) {
    const { io, signal } = ctx;
    const { at, id } = await webhookOf(ctx, wanted!);
    const delivery = await (await ctx.berth()).webhooks.test(at, id, { signal });
    if (io.json) io.outJson(delivery);
    else io.note(`  Sending ${delivery.id}: berth webhooks deliveries ${id}`);
  },
});

const rotate = command({
  name: "webhooks rotate",
  summary: "Replace the secret of a webhook",
  args: "WEBHOOK",
  arity: [1, 1],
  about: ["The secret before signs requests too for 24 hours."],
  examples: [["webhooks rotate https://hooks.example.com/berth", "prints the new secret"]],
  async run({ args: [wanted] }, ctx) {
    const { io, signal } = ctx;
    const { at, id } = await webhookOf(ctx, wanted!);
    const made = await (await ctx.berth()).webhooks.rotateSecret(at, id, { signal });
    if (io.json) io.outJson(made);
    else printSecret(ctx, made);
  },
});

const deliveries = command({
  name: "webhooks deliveries",
  summary: "List what was sent to a webhook",
  args: "WEBHOOK",
  arity: [1, 1],
  about: [`The newest ${SHOWN_DELIVERIES}. Deliveries are kept for 7 days.`],
  examples: [["webhooks deliveries https://hooks.example.com/berth --failed", "what was given up"]],
  options: { failed: { kind: "flag", about: "Only those that were given up" } },
  async run({ args: [wanted], options: { failed } }, ctx) {
    const { io, signal } = ctx;
    const { at, id } = await webhookOf(ctx, wanted!);
    const query = { limit: SHOWN_DELIVERIES, ...(failed && { state: "failed" as const }) };
    const found = (await ctx.berth()).webhooks.deliveries(at, id, query, { signal });
    const data = await found.all(SHOWN_DELIVERIES);
    if (io.json) return io.outJson({ data });
    const now = await ctx.now();
    const rows = data.map((each) => [
      each.kind,
      each.state,
      outcomeOf(each),
      String(each.attempts),
      ago(each.createdAt, now),
      each.id,
    ]);
    printTable(io, ["KIND", "STATE", "ANSWER", "TRIES", "CREATED", "ID"], rows);
    return undefined;
  },
});

const replay = command({
  name: "webhooks replay",
  summary: "Send a delivery again",
  args: "WEBHOOK DELIVERY",
  arity: [2, 2],
  examples: [["webhooks replay https://hooks.example.com/berth ID", "an id of berth webhooks deliveries"]],
  async run({ args: [wanted, deliveryId] }, ctx) {
    const { io, signal } = ctx;
    const { at, id } = await webhookOf(ctx, wanted!);
    const delivery = await (await ctx.berth()).webhooks.replay(at, id, deliveryId!, { signal });
    if (io.json) io.outJson(delivery);
    else io.note(`  Sending ${delivery.id} again: berth webhooks deliveries ${id}`);
  },
});

async function setEnabled(ctx: Context, wanted: string, enabled: boolean): Promise<void> {
  const { io, signal } = ctx;
  const { at, id } = await webhookOf(ctx, wanted);
  const webhook = await (await ctx.berth()).webhooks.update(at, id, { enabled }, { signal });
  if (io.json) io.outJson(webhook);
  else io.note(`  ${enabled ? "Enabled" : "Disabled"} ${io.shown(webhook.url)}.`);
}

async function webhooksOf(ctx: Context, at: AccountAddress): Promise<Webhook[]> {
  return (await ctx.berth()).webhooks.list(at, { limit: 100 }, { signal: ctx.signal }).all();
}

/** Finds a webhook of the account by its URL or id. */
async function webhookOf(ctx: Context, wanted: string) {
  const { accountId } = await ctx.at.account();
  const at = { accountId };
  const found = (await webhooksOf(ctx, at)).find(({ id, url }) => id === wanted || url === wanted);
  if (!found) throw refused(`The account has no webhook ${wanted}.`, "berth webhooks", "not_found");
  return { at, id: found.id, url: found.url };
}

function printSecret({ io }: Context, { secret = "" }: Webhook): void {
  io.note("  The secret that signs its requests, shown only now:");
  io.out(secret);
}

const outcomeOf = ({ status, error }: WebhookDelivery) =>
  error ?? (status === undefined ? "" : String(status));

export const commands = [list, add, remove, enable, disable, test, rotate, deliveries, replay];
