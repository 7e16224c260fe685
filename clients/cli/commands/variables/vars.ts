import { readFile } from "node:fs/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type {
  AliasWarning,
  ImpactedService,
  ResolvedVariable,
  Variable,
  VariableEntry,
} from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused, usage } from "../../failure.ts";
import { count } from "../../terminal/format.ts";
import { askSecret, confirm, readStdin } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";
import { FORMATS, readVariables, writeVariables } from "./dotenv.ts";
import { revealAll, revealOne } from "./resolved.ts";
import { SCOPE_OPTION, scopeAt } from "./scope.ts";

const WITHHELD = "••••••";
const MAX_BATCH = 500;

const list = command({
  name: "vars",
  summary: "List what a service receives, with the scope that each variable comes from",
  about: [
    "The values of sensitive variables are withheld. With --scope, lists the variables of that scope only.",
  ],
  examples: [
    ["vars", "what the linked service receives"],
    ["vars --scope project", "what the project gives to all services"],
  ],
  options: {
    scope: { ...SCOPE_OPTION, about: "List the variables of this scope: project, environment or service" },
  },
  async run({ options: { scope } }, ctx) {
    const { io, signal } = ctx;
    const berth = await ctx.berth();
    if (scope) {
      const { address } = await scopeAt(ctx, scope);
      const data = (await berth.variables.list(address, { limit: 100 }, { signal }).all()).toSorted(byName);
      if (io.json) return io.outJson({ data });
      return printTable(
        io,
        ["NAME", "VALUE"],
        data.map((each) => [each.name, shownValue(ctx, each)]),
      );
    }
    const at = await ctx.at.service();
    const set = await berth.variables.resolve(at, { signal });
    if (io.json) return io.outJson(set);
    const rows = set.data.map((each) => [each.name, shownValue(ctx, each), sourceText(each)]);
    for (const { name, reason } of set.dangling)
      rows.push([name, io.style("red", "does not resolve"), reason]);
    if (rows.length === 0) return io.note(`  ${at.service} has no variables: berth vars set NAME=VALUE`);
    printTable(io, ["NAME", "VALUE", "SOURCE"], rows);
  },
});

const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);

function shownValue(
  { io }: Context,
  each: Pick<Variable, "value" | "sensitive" | "connection" | "aliasTarget">,
) {
  const value =
    each.value === undefined
      ? undefined
      : io.shown(each.value.split("\n")[0]! + (each.value.includes("\n") ? " …" : ""));
  if (each.connection) return `${each.connection.service}.${each.connection.key}`;
  if (each.aliasTarget) return `→ ${each.aliasTarget}`;
  return value ?? (each.sensitive ? WITHHELD : "");
}

function sourceText({ source, shadows, fromConfig }: ResolvedVariable): string {
  if (fromConfig) return "config of the service";
  const hidden = shadows.map(({ scope }) => scope).join(" and ");
  return hidden ? `${source}, shadows ${hidden}` : source;
}

const set = command({
  name: "vars set",
  summary: "Set variables, all or none",
  args: "NAME[=VALUE]…",
  arity: [1, MAX_BATCH],
  about: [
    "A name without a value takes it from stdin, or from a question that does not show it: so no secret is in the history of the shell. Running services receive changes by themselves; what a build wrote into a site, such as VITE_API_URL, changes with the next berth up.",
  ],
  examples: [
    ["vars set LOG_LEVEL=debug", "for the linked service"],
    ["vars set API_KEY --sensitive < key.txt", "a secret, which is not shown afterwards"],
    ["vars set DATABASE_URL --connection db.URL --scope environment", "what the addon db publishes"],
  ],
  options: {
    scope: SCOPE_OPTION,
    sensitive: { kind: "flag", about: "Withhold the values from all ordinary reads" },
    connection: { kind: "text", value: "ADDON.KEY", about: "Take the value from an addon, such as db.URL" },
    alias: { kind: "text", value: "NAME", about: "Take the value of another variable" },
  },
  async run({ args, options }, ctx) {
    const { address, label } = await scopeAt(ctx, options.scope);
    const entries: VariableEntry[] = [];
    for (const text of args) entries.push(await entryOf(text, options, args.length, ctx));
    await write(ctx, address, label, entries);
  },
});

type SetOptions = { sensitive: boolean; connection: string | undefined; alias: string | undefined };

async function entryOf(text: string, options: SetOptions, of: number, ctx: Context): Promise<VariableEntry> {
  const equals = text.indexOf("=");
  const name = equals < 0 ? text : text.slice(0, equals);
  const refers = options.connection ?? options.alias;
  if (refers !== undefined && equals >= 0)
    throw usage(`${name} has a value and a source.`, "berth vars set --help");
  if (options.connection) {
    const [service, key, more] = options.connection.split(".");
    if (!service || !key || more !== undefined) throw usage("--connection is ADDON.KEY, such as db.URL.");
    return { name, connection: { service, key } };
  }
  if (options.alias) return { name, aliasTarget: options.alias };
  const sensitive = options.sensitive && { sensitive: true };
  if (equals >= 0) return { name, value: text.slice(equals + 1), ...sensitive };
  if (of > 1)
    throw usage(`${name} has no value.`, `berth vars set ${name}, alone, or berth vars import FILE`);
  const value = ctx.io.interactive
    ? await askSecret(ctx.io, `Value of ${name}:`, `berth vars set ${name} < FILE`)
    : // The line break at its end is the file's.
      (await readStdin()).replace(/\r?\n$/, "");
  return { name, value, ...sensitive };
}

async function write(
  ctx: Context,
  address: Awaited<ReturnType<typeof scopeAt>>["address"],
  label: string,
  entries: VariableEntry[],
): Promise<void> {
  const { io, signal } = ctx;
  const berth = await ctx.berth();
  const result = await berth.variables
    .batch(address, { set: entries }, { signal })
    .catch((error: unknown) => {
      throw namingEntry(error, entries);
    });
  if (io.json) return io.outJson(result);
  io.note(`  Set ${entries.map(({ name }) => name).join(", ")} of the ${label}.`);
  // The same may hold in several environments.
  for (const text of new Set([...result.warnings.map(warningText), ...entries.flatMap(templateText)]))
    io.note(`  ${io.styleErr("yellow", "Warning:")} ${text}`);
}

/** Elsewhere, this is how a variable refers to a database. Here the app would get the text itself. */
function templateText({ name, value }: VariableEntry): string[] {
  const [template, service, key] = /\$\{\{\s*([\w-]+)(?:\.(\w+))?\s*\}\}/.exec(value ?? "") ?? [];
  if (template === undefined) return [];
  const refer = key === undefined ? `--alias ${service}` : `--connection ${service}.URL`;
  return [
    `${name} is set to the text ${template}, which nothing replaces. To refer: berth vars set ${name} ${refer}`,
  ];
}

/** Says which variable is wrong by its name: who sent a file did not count. */
function namingEntry(error: unknown, entries: VariableEntry[]): unknown {
  const [wrong] = isRefusal(error, "validation_failed") ? error.details : [];
  const [, index] = /^set\[(\d+)\]/.exec(wrong?.path ?? "") ?? [];
  const name = entries[Number(index)]?.name;
  if (!wrong || name === undefined) return error;
  const why = wrong.message.replace(/^set\[\d+\]\.name /, "A name ").replace(/^set\[\d+\]\./, "Its ");
  return refused(`${JSON.stringify(name)}: ${why}`, undefined, "validation_failed");
}

function warningText({ reason, name, cycle, variable, connection }: AliasWarning): string {
  if (reason === "alias_cycle") return `${cycle.join(" → ")} is a cycle in ${name}.`;
  if (reason === "port_reserved") return "PORT does not reach services: the platform sets it.";
  return `${variable} does not resolve: ${connection?.service}.${connection?.key}, ${reason}.`;
}

const unset = command({
  name: "vars unset",
  summary: "Remove variables, all or none",
  args: "NAME…",
  arity: [1, MAX_BATCH],
  about: ["At project and environment scope, the services that lose a value are shown first."],
  examples: [
    ["vars unset LOG_LEVEL", "from the linked service"],
    ["vars unset LOG_LEVEL --scope project --yes", "from the project, without a question"],
  ],
  options: { scope: SCOPE_OPTION, yes: YES },
  async run({ args, options }, ctx) {
    const { io, signal } = ctx;
    const { address, label } = await scopeAt(ctx, options.scope);
    const berth = await ctx.berth();
    const remove = (confirmImpact: boolean) =>
      berth.variables.batch(address, { unset: args, confirmImpact }, { signal });
    let result: Awaited<ReturnType<typeof remove>>;
    try {
      result = await remove(options.yes);
    } catch (error) {
      if (!isRefusal(error, "impact_confirmation_required")) throw error;
      printImpact(ctx, error.impact);
      const again = `berth vars unset ${args.join(" ")} --scope ${options.scope} --yes`;
      await confirm(io, `Remove ${args.join(", ")} from the ${label}?`, false, again);
      result = await remove(true);
    }
    if (io.json) return io.outJson(result);
    io.note(`  Removed ${count(result.removed, "variable")} of the ${label}.`);
  },
});

function printImpact(
  { io }: Context,
  { services, total }: { services: ImpactedService[]; total: number },
): void {
  if (total === 0) {
    io.note("  No service receives it from there.");
    return;
  }
  const names = services.map(({ name }) => name).join(", ");
  io.note(
    `  ${count(total, "service")} would lose it, or receive it from a wider scope: ${names}${total > services.length ? ", …" : ""}.`,
  );
}

const importing = command({
  name: "vars import",
  summary: "Set the variables of a .env or JSON file, all or none",
  args: "FILE",
  arity: [1, 1],
  about: ["Reads a .env file as Node's --env-file does, or a JSON object of texts. `-` reads stdin."],
  examples: [
    ["vars import .env --sensitive", "all of them as secrets"],
    ["vars import settings.json --scope project", "for the whole project"],
  ],
  options: {
    scope: SCOPE_OPTION,
    sensitive: { kind: "flag", about: "Withhold the values from all ordinary reads" },
  },
  async run({ args: [file], options }, ctx) {
    const text = file === "-" ? await readStdin() : await readFile(file!, "utf8");
    const entries = readVariables(text).map(([name, value]) => ({
      name,
      value,
      ...(options.sensitive && { sensitive: true }),
    }));
    if (entries.length === 0) throw refused(`${file} sets no variable.`, "berth vars set NAME=VALUE");
    const { address, label } = await scopeAt(ctx, options.scope);
    await write(ctx, address, label, entries);
  },
});

const exporting = command({
  name: "vars export",
  summary: "Print what a service receives, with the values of secrets",
  about: ["Every secret that is revealed is recorded in the audit log."],
  examples: [
    ["vars export > .env", "for tools that read .env files"],
    ["vars export --format json", "for programs"],
  ],
  options: {
    format: {
      kind: "text",
      value: "FORMAT",
      about: "dotenv, json or shell; dotenv by default",
      choices: FORMATS,
    },
  },
  async run({ options }, ctx) {
    const at = await ctx.at.service();
    const entries = await revealAll(ctx, at);
    const format = ctx.io.json ? "json" : ((options.format as (typeof FORMATS)[number]) ?? "dotenv");
    ctx.io.raw(writeVariables(entries, format));
  },
});

const why = command({
  name: "vars why",
  summary: "Explain where a variable comes from, and what it hides",
  args: "NAME",
  arity: [1, 1],
  examples: [["vars why DATABASE_URL", "its source, what it shadows, or why it does not resolve"]],
  async run({ args: [name] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const berth = await ctx.berth();
    const resolved = await berth.variables.resolve(at, { signal });
    const entry = resolved.data.find((each) => each.name === name);
    const dangling = resolved.dangling.find((each) => each.name === name);
    if (!entry && !dangling)
      throw refused(`${at.service} receives no ${name}.`, `berth vars set ${name}=VALUE`, "not_found");
    if (io.json) return io.outJson(entry ?? dangling);
    if (!entry) {
      const { reason } = dangling!;
      io.out(
        `${name}  ${shownValue(ctx, { sensitive: false, ...dangling! })}  does not resolve: ${REASONS[reason] ?? reason}`,
      );
      return;
    }
    const kind = entry.connection
      ? `connection ${entry.connection.service}.${entry.connection.key}`
      : entry.aliasTarget
        ? "alias"
        : "literal";
    const labels = {
      project: (await ctx.at.project()).name,
      environment: (await ctx.at.environment()).name,
      service: at.service,
    };
    const from = entry.fromConfig ? "config of the service" : `${entry.source} ${labels[entry.source]}`;
    const value = entry.sensitive ? "sensitive" : io.shown(entry.value ?? "");
    io.out([name, kind, `from ${from}`, value].filter(Boolean).join("  "));
    for (let each = entry; each.aliasTarget; ) {
      const target = resolved.data.find((other) => other.name === each.aliasTarget);
      if (!target) break;
      io.out(`  → ${target.name}  from ${target.source} ${labels[target.source]}`);
      each = target;
    }
    for (const { scope } of entry.shadows) io.out(`  shadows ${scope} ${labels[scope]}`);
  },
});

/** What the reasons mean (docs/variables.md#dangling); a newer server may know more. */
const REASONS: Record<string, string> = {
  service_not_found: "no service of that name in the environment",
  service_not_addon: "it is a web, worker or cron service",
  service_not_ready: "the addon is still being set up",
  key_not_found: "the addon publishes no such key",
  alias_target_not_found: "no variable of that name",
  alias_target_dangling: "what it refers to does not resolve itself",
  alias_cycle: "the aliases form a cycle",
  alias_depth_exceeded: "more than ten aliases in a row",
};

const reveal = command({
  name: "vars reveal",
  summary: "Print the value of a variable, a secret too",
  args: "NAME",
  arity: [1, 1],
  about: [
    "As the service receives it; with --scope, the variable of that scope. It is recorded in the audit log.",
  ],
  examples: [["vars reveal API_KEY", "what the service receives"]],
  options: {
    scope: { ...SCOPE_OPTION, about: "The variable of this scope: project, environment or service" },
  },
  async run({ args: [name], options: { scope } }, ctx) {
    const { io, signal } = ctx;
    const berth = await ctx.berth();
    let value: string;
    if (scope) {
      const { address } = await scopeAt(ctx, scope);
      value = (await berth.variables.reveal(address, name!, { signal })).value;
    } else {
      const at = await ctx.at.service();
      const resolved = await berth.variables.resolve(at, { signal });
      const entry = resolved.data.find((each) => each.name === name);
      if (!entry) throw refused(`${at.service} receives no ${name}.`, `berth vars why ${name}`, "not_found");
      value = await revealOne(ctx, at, resolved, entry);
    }
    if (io.json) return io.outJson({ name, value });
    // Exactly the value where a program reads it.
    io.raw(io.stdoutIsTerminal ? `${value}\n` : value);
  },
});

export const commands = [list, set, unset, importing, exporting, why, reveal];
