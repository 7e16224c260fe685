import { setTimeout as delay } from "node:timers/promises";
import type { Service } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import type { Context } from "../../context.ts";
import { Failure } from "../../failure.ts";

const POLL_MS = 1_000;

/** Waits until a new addon has the data that it begins with, and says so. */
export async function untilFilled(
  ctx: Context,
  at: ServiceAddress,
  made: Service,
  { from, detach }: { from: string; detach: boolean | undefined },
): Promise<void> {
  const { io, signal } = ctx;
  const name = at.service;
  const { services } = await ctx.berth();
  ctx.sayWhenCanceled(`${name} is made without this terminal.`, `See it: berth backups ${name}`);
  let restored = made.backups?.restore;
  while (restored?.status === "running" && !detach) {
    await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    restored = (await services.get(at, { signal })).backups?.restore;
  }
  if (restored?.status === "failed") {
    const hint = `It is there without data: berth backups restore ${name} BACKUP`;
    throw new Failure("refused", `${name} did not get the data: ${restored.failure ?? ""}`, hint);
  }
  if (io.json) io.outJson(made);
  else io.note(`  ${name} ${detach ? "gets" : "has"} the data of ${restored?.backup ?? from}.`);
}
