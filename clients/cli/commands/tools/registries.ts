import type { Registry } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused } from "../../failure.ts";
import { ago } from "../../terminal/format.ts";
import { askSecret, confirm, readStdin } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";

const FROM_STDIN = "The token comes from stdin, or from a question that does not show it.";

const list = command({
  name: "registries",
  summary: "List the registries from which the account's private images are pulled",
  about: ["Only owners may do this."],
  examples: [["registries", "hosts, users, and since when the token is the same"]],
  async run(_input, ctx) {
    const { io } = ctx;
    const { accountId } = await ctx.at.account();
    const data = await registriesOf(ctx, accountId);
    if (io.json) return io.outJson({ data });
    const now = await ctx.now();
    const rows = data.map(({ host, user, createdAt, rotatedAt }) => [
      io.shown(host),
      io.shown(user),
      ago(rotatedAt ?? createdAt, now),
    ]);
    printTable(io, ["REGISTRY", "USER", "TOKEN SET"], rows);
    return undefined;
  },
});

const add = command({
  name: "registries add",
  summary: "Store the login for a registry",
  args: "HOST",
  arity: [1, 1],
  about: [FROM_STDIN, "Images of this registry are pulled with it, in all environments of the account."],
  examples: [
    [
      "registries add ghcr.io --user shop-deploy < token.txt",
      "then: berth deploy --image ghcr.io/shop/web:1",
    ],
    ["registries add docker.io --user shop", "asks for the token"],
  ],
  options: { user: { kind: "text", value: "USER", about: "User of the login" } },
  async run({ args: [host], options: { user } }, ctx) {
    const { io, signal } = ctx;
    if (!user) throw refused("A login has a user.", `berth registries add ${host} --user USER`);
    const { accountId } = await ctx.at.account();
    const token = await readToken(ctx, `berth registries add ${host} --user ${user} < FILE`);
    const body = { host: host!, user, token };
    const made = await (await ctx.berth()).registries.create({ accountId }, body, { signal });
    if (io.json) return io.outJson(made);
    io.note(`  Images of ${io.shown(made.host)} are pulled as ${io.shown(made.user)}.`);
    return undefined;
  },
});

const rotate = command({
  name: "registries rotate",
  summary: "Replace the token of a registry",
  args: "HOST",
  arity: [1, 1],
  about: [FROM_STDIN],
  examples: [["registries rotate ghcr.io < token.txt", "nodes have it within a minute"]],
  options: { user: { kind: "text", value: "USER", about: "Another user of the login" } },
  async run({ args: [wanted], options: { user } }, ctx) {
    const { io, signal } = ctx;
    const { accountId, id } = await registryOf(ctx, wanted!);
    const token = await readToken(ctx, `berth registries rotate ${wanted} < FILE`);
    const body = { token, ...(user && { user }) };
    const updated = await (await ctx.berth()).registries.update({ accountId }, id, body, { signal });
    if (io.json) return io.outJson(updated);
    io.note(`  Replaced the token of ${io.shown(updated.host)}.`);
    return undefined;
  },
});

const remove = command({
  name: "registries remove",
  summary: "Delete the login for a registry",
  args: "HOST",
  arity: [1, 1],
  examples: [["registries remove ghcr.io", "asks first"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { io, signal } = ctx;
    const { accountId, id, host } = await registryOf(ctx, wanted!);
    const question = `Delete the login for ${host}? Replicas that start on another node cannot pull from there.`;
    await confirm(io, question, yes, `berth registries remove ${host} --yes`);
    await (await ctx.berth()).registries.delete({ accountId }, id, { signal });
    if (io.json) io.outJson({ removed: id });
    else io.note(`  Deleted the login for ${io.shown(host)}.`);
  },
});

async function registriesOf(ctx: Context, accountId: string): Promise<Registry[]> {
  return (await ctx.berth()).registries.list({ accountId }, { limit: 100 }, { signal: ctx.signal }).all();
}

/** Finds a registry by its host or id. */
async function registryOf(ctx: Context, wanted: string): Promise<Registry & { accountId: string }> {
  const { accountId } = await ctx.at.account();
  const all = await registriesOf(ctx, accountId);
  const found = all.find(({ host, id }) => host === wanted.toLowerCase() || id === wanted);
  if (found) return { ...found, accountId };
  throw refused(`The account has no registry ${wanted}.`, "berth registries", "not_found");
}

/** Reads a token without its line break: not as an argument, which other users of the machine and the history see. */
async function readToken({ io }: Context, otherwise: string): Promise<string> {
  const typed = io.interactive ? await askSecret(io, "Token:", otherwise) : await readStdin();
  return typed.replace(/\r?\n$/, "");
}

export const commands = [list, add, rotate, remove];
