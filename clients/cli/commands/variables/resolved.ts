import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type { ResolvedVariable, ResolvedVariables } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import type { Context } from "../../context.ts";
import { refused } from "../../failure.ts";
import { isUnknownEndpoint } from "../../report.ts";

const MAX_PAUSE_S = 65;

/** Returns the address of the scope that an entry comes from. */
export function sourceAddress(at: ServiceAddress, { source }: Pick<ResolvedVariable, "source">) {
  const { service: _, ...environment } = at;
  const { environmentId: __, ...project } = environment;
  return { project, environment, service: at }[source];
}

/** Returns all that a service receives, with the values of sensitive variables. Each reveal is in the audit log. */
export async function revealAll(ctx: Context, at: ServiceAddress): Promise<[name: string, value: string][]> {
  const berth = await ctx.berth();
  const { signal } = ctx;
  try {
    const { data } = await berth.variables.revealResolved(at, { signal });
    return data.map(({ name, value }) => [name, value]);
  } catch (error) {
    if (!isRefusal(error) || !isUnknownEndpoint(error)) throw error;
  }
  // An older installation reveals one at a time.
  const set = await berth.variables.resolve(at, { signal });
  const values = new Map<string, string>();
  for (const entry of set.data) values.set(entry.name, await revealOne(ctx, at, set, entry));
  return [...values];
}

/** Returns the value of an entry: an alias has that of what it leads to, as this service sees it. */
export async function revealOne(
  ctx: Context,
  at: ServiceAddress,
  { data }: ResolvedVariables,
  entry: ResolvedVariable,
): Promise<string> {
  let last = entry;
  // A chain ends: the server lets none dangle or turn in circles into `data`.
  for (let n = 0; last.aliasTarget !== undefined && n < 100; n++)
    last = data.find(({ name }) => name === last.aliasTarget) ?? { ...last, aliasTarget: undefined };
  if (last.value !== undefined) return last.value;
  if (last.source === "project" && last.connection)
    throw refused(
      `${last.name} is a connection of the project, which cannot be revealed by itself.`,
      `berth vars set ${last.name} --connection ${last.connection.service}.${last.connection.key} --scope environment`,
    );
  const berth = await ctx.berth();
  for (;;) {
    try {
      return (await berth.variables.reveal(sourceAddress(at, last), last.name, { signal: ctx.signal })).value;
    } catch (error) {
      if (!isRefusal(error, "rate_limited")) throw error;
      const seconds = Math.min(error.retryAfter ?? 5, MAX_PAUSE_S);
      ctx.io.note(`  30 values a minute may be revealed: the next in ${seconds} s.`);
      await delay(seconds * 1_000, undefined, { signal: ctx.signal }).catch(() =>
        ctx.signal.throwIfAborted(),
      );
    }
  }
}
