import type { Domain } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused } from "../../failure.ts";
import { confirm } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";

const list = command({
  name: "domains",
  summary: "List the domains of a service",
  about: ["A domain that is not active shows why, and which records to create."],
  examples: [["domains -s web", "host names, states and what to do"]],
  async run(_input, ctx) {
    const { io } = ctx;
    const data = await domainsOf(ctx, await ctx.at.service());
    if (io.json) return io.outJson({ data });
    const rows = data.map(({ host, redirectTo, state }) => [
      io.shown(host),
      state,
      redirectTo ? `→ ${io.shown(redirectTo)}` : "",
    ]);
    printTable(io, ["DOMAIN", "STATE", "REDIRECTS"], rows);
    for (const domain of data) if (domain.state !== "active" || domain.message) explain(ctx, domain);
    return undefined;
  },
});

const add = command({
  name: "domains add",
  summary: "Add a domain to a web service",
  args: "HOST",
  arity: [1, 1],
  about: ["It is served once one of the records that this shows is found."],
  examples: [
    ["domains add shop.example.com", "shows the records to create"],
    ["domains add www.example.com --redirect example.com", "redirects to the same path at example.com"],
  ],
  options: {
    redirect: { kind: "text", value: "HOST", about: "Redirect to this host instead of serving" },
  },
  async run({ args: [host], options: { redirect } }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const body = { host: host!, ...(redirect && { redirectTo: redirect }) };
    const domain = await (await ctx.berth()).domains.create(at, body, { signal });
    if (io.json) return io.outJson(domain);
    io.note(
      `  Added ${io.shown(domain.host)}. When the records are created: berth domains check ${domain.host}`,
    );
    explain(ctx, domain);
    return undefined;
  },
});

const remove = command({
  name: "domains remove",
  summary: "Remove a domain",
  args: "HOST",
  arity: [1, 1],
  examples: [["domains remove shop.example.com", "asks first"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const { id, host } = await domainOf(ctx, at, wanted!);
    await confirm(
      io,
      `Remove ${host}? It is then no longer served.`,
      yes,
      `berth domains remove ${host} --yes`,
    );
    await (await ctx.berth()).domains.delete(at, id, { signal });
    if (io.json) io.outJson({ removed: id });
    else io.note(`  Removed ${io.shown(host)}.`);
  },
});

const check = command({
  name: "domains check",
  summary: "Look up a domain's records again now",
  args: "HOST",
  arity: [1, 1],
  examples: [["domains check shop.example.com", "then: berth domains"]],
  async run({ args: [wanted] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const { id } = await domainOf(ctx, at, wanted!);
    const domain = await (await ctx.berth()).domains.check(at, id, { signal });
    if (io.json) io.outJson(domain);
    else io.note(`  Looking up the records of ${io.shown(domain.host)}: berth domains`);
  },
});

async function domainsOf(ctx: Context, at: ServiceAddress): Promise<Domain[]> {
  return (await ctx.berth()).domains.list(at, { limit: 100 }, { signal: ctx.signal }).all();
}

/** Finds a domain by its host name or id. */
async function domainOf(ctx: Context, at: ServiceAddress, wanted: string): Promise<Domain> {
  const all = await domainsOf(ctx, at);
  const host = wanted.toLowerCase().replace(/\.$/, "");
  const found = all.find((one) => one.host === host || one.id === wanted);
  if (found) return found;
  throw refused(`The service has no domain ${wanted}.`, "berth domains", "not_found");
}

/** Shows why a domain is in its state, and the records that are still to be created. */
function explain({ io }: Context, { host, message, records }: Domain): void {
  if (message) io.note(`  ${io.shown(host)}: ${io.shown(message)}`);
  for (const { type, name, value, found, purpose } of records)
    if (!found) io.note(`    ${type}  ${io.shown(name)}  ${io.shown(value)}  (${purpose})`);
}

export const commands = [list, add, remove, check];
