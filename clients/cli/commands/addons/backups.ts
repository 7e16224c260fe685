import { createWriteStream, openAsBlob } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import { basename } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type { AddonBackups, Backup } from "../../../typescript/src/generated/types.ts";
import type { EnvironmentAddress, ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { Failure, usage } from "../../failure.ts";
import { timeOf } from "../../option-values.ts";
import { downloadFrom } from "../../session/download.ts";
import { clean } from "../../terminal/clean.ts";
import { ago, bytes, duration } from "../../terminal/format.ts";
import { confirm } from "../../terminal/prompt.ts";
import { printTable } from "../../terminal/table.ts";
import { createSteps } from "../deploy/steps.ts";
import { ADDON_OPTIONS, addonConfigOf } from "./addon-options.ts";
import { untilFilled } from "./until-filled.ts";

const POLL_MS = 1_000;

const list = command({
  name: "backups",
  summary: "List the backups of an addon, or those of deleted addons",
  args: "[ADDON]",
  arity: [0, 1],
  about: ["Without ADDON, those that are kept for some days of addons that were deleted."],
  examples: [
    ["backups db", "newest first, with status and size"],
    ["backups", "of deleted addons, with how to bring them back"],
  ],
  async run({ args: [name] }, ctx) {
    if (name === undefined) return listKept(ctx);
    const { io, signal } = ctx;
    const at = addonIn(await ctx.at.environment(), name!);
    const berth = await ctx.berth();
    const data = await berth.backups.list(at, { limit: 100 }, { signal }).all();
    if (io.json) return io.outJson({ data });
    const { backups } = await berth.services.get(at, { signal });
    if (data.length === 0) {
      io.note(`  There are none yet: berth backups create ${name}`);
      return noteMoments(ctx, name!, backups);
    }
    const now = await ctx.now();
    const rows = data.map((backup) => [
      backup.id,
      painted(ctx, backup),
      backup.trigger,
      startedOf(backup, now),
      tookOf(backup, now),
      backup.sizeBytes === undefined ? "–" : bytes(backup.sizeBytes),
      backup.version ?? "–",
      proofOf(ctx, backup, now),
    ]);
    printTable(io, ["BACKUP", "STATUS", "TRIGGER", "STARTED", "TOOK", "SIZE", "VERSION", "PROVED"], rows);
    return noteMoments(ctx, name!, backups);
  },
});

/** Says which moments can be restored, where any can. */
function noteMoments({ io }: Context, name: string, backups: AddonBackups | undefined): void {
  const { oldestRestorableAt: oldest, archiveFailure } = backups ?? {};
  if (oldest !== undefined)
    io.note(`  Each moment since ${oldest} can be restored too: berth backups restore ${name} --at TIME`);
  if (archiveFailure !== undefined) io.note(`  ${io.styleErr("red", clean(archiveFailure))}`);
}

async function listKept(ctx: Context): Promise<void> {
  const { io, signal } = ctx;
  const at = await ctx.at.account();
  const data = await (await ctx.berth()).keptBackups.list(at, { limit: 100 }, { signal }).all();
  if (io.json) return io.outJson({ data });
  if (data.length === 0) return io.note("  No addon was deleted lately that had a backup.");
  const now = await ctx.now();
  const rows = data.map((one) => [
    one.id,
    one.serviceName,
    one.type,
    `${one.projectName}/${one.environmentName}`,
    startedOf(one, now),
    bytes(one.sizeBytes),
    `${duration(Date.parse(one.keptUntil) - now)} more`,
  ]);
  printTable(io, ["BACKUP", "ADDON", "TYPE", "WAS IN", "STARTED", "SIZE", "KEPT"], rows);
  return io.note("  Bring one back: berth backups recover BACKUP");
}

const recover = command({
  name: "backups recover",
  summary: "Bring a deleted addon back, with the data of its last backup",
  args: "BACKUP",
  arity: [1, 1],
  about: ["It is a new addon, with keys of its own: replace the connections that named the old one."],
  examples: [
    ["backups recover bkp_01k9…", "in the environment of this folder, with its name"],
    ["backups recover bkp_01k9… --to staging --name db-2", "elsewhere, with another name"],
  ],
  options: {
    to: {
      kind: "text",
      value: "ENV",
      about: "Environment of the new one; -e, or that of this folder, by default",
    },
    name: { kind: "text", value: "NAME", about: "Its name; the one that it had by default" },
    ...ADDON_OPTIONS,
    detach: { kind: "flag", short: "d", about: "Return at once" },
  },
  async run({ args: [backup], options }, ctx) {
    const { to, name: wanted, detach } = options;
    const config = addonConfigOf(options);
    const berth = await ctx.berth();
    const { name: _, ...target } = await ctx.at.environment(to);
    const { type, serviceName } = await berth.keptBackups.get(target, backup!, { signal: ctx.signal });
    const name = wanted ?? serviceName;
    const made = await berth.services.create(
      target,
      { name, type, from: { backup: backup! }, ...(config && { config }) },
      { signal: ctx.signal },
    );
    await untilFilled(ctx, { ...target, service: name }, made, { from: backup!, detach });
  },
});

const create = command({
  name: "backups create",
  summary: "Back up an addon now",
  args: "ADDON",
  arity: [1, 1],
  examples: [
    ["backups create db", "and wait for its end"],
    ["backups create db --at 2h", "of the data of two hours ago, where the addon has an archive"],
  ],
  options: {
    at: {
      kind: "text",
      value: "TIME",
      about: "Moment whose data it has: 10m, 2h, 3d ago, or a time as 2026-11-25T09:00Z",
    },
    detach: { kind: "flag", short: "d", about: "Return at once" },
  },
  async run({ args: [name], options: { at: wanted, detach } }, ctx) {
    const { io, signal } = ctx;
    const at = addonIn(await ctx.at.environment(), name!);
    const { backups } = await ctx.berth();
    const moment = await timeOf(ctx, at, "--at", wanted);
    let backup = await backups.create(at, moment === undefined ? {} : { at: moment }, { signal });
    ctx.sayWhenCanceled(`${backup.id} is made without this terminal.`, `See it: berth backups ${name}`);
    while (backup.status === "running" && !detach) {
      await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
      backup = await backups.get(at, backup.id, { signal });
    }
    if (io.json) io.outJson(backup);
    else io.out(backup.sizeBytes === undefined ? backup.id : `${backup.id}  ${bytes(backup.sizeBytes)}`);
    if (backup.status === "failed")
      throw new Failure("refused", `${backup.id} failed: ${backup.failure ?? ""}`, `berth backups ${name}`);
  },
});

const download = command({
  name: "backups download",
  summary: "Save a backup of an addon as a file",
  args: "[ADDON] BACKUP",
  arity: [1, 2],
  about: [
    "A postgres backup is what pg_dump --format=custom writes, a redis backup an RDB file.",
    "ADDON is left out for a backup of a deleted addon.",
  ],
  examples: [["backups download db bkp_01k9… -o db.dump", "and then: pg_restore --dbname=… db.dump"]],
  options: {
    output: {
      kind: "text",
      short: "o",
      value: "FILE",
      about: "Its name; ADDON-BACKUP.dump or .rdb by default",
    },
  },
  async run({ args, options }, ctx) {
    const { io, signal } = ctx;
    const id = args.at(-1)!;
    const { type, name, sign } = args.length > 1 ? await ofAddon(ctx, args[0]!) : await ofDeleted(ctx, id);
    // The server says the name: it names no other folder.
    const { output = `${basename(name)}-${id}.${type === "postgres" ? "dump" : "rdb"}` } = options;
    const { url } = await sign(id);
    // The URL is a secret: no error says it.
    const answer = await downloadFrom(url, signal).catch(() => undefined);
    if (answer?.statusCode !== 200) {
      answer?.destroy();
      throw new Failure("refused", `The backup cannot be read: ${answer?.statusCode ?? "no answer"}.`);
    }
    const partial = `${output}.part`;
    try {
      await pipeline(answer, createWriteStream(partial, { mode: 0o600 }), { signal });
      await rename(partial, output);
    } finally {
      await rm(partial, { force: true });
    }
    if (io.json) io.outJson({ file: output });
    else io.note(`  Saved ${output}.`);
  },
});

/** What a download of a backup needs: of an addon, or of one that was deleted. */
async function ofAddon(ctx: Context, name: string) {
  const at = addonIn(await ctx.at.environment(), name);
  const { services, backups } = await ctx.berth();
  const { type } = await services.get(at, { signal: ctx.signal });
  return { type, name, sign: (id: string) => backups.download(at, id, { signal: ctx.signal }) };
}

async function ofDeleted(ctx: Context, backup: string) {
  const at = await ctx.at.account();
  const { keptBackups } = await ctx.berth();
  const { type, serviceName: name } = await keptBackups.get(at, backup, { signal: ctx.signal });
  return { type, name, sign: (id: string) => keptBackups.download(at, id, { signal: ctx.signal }) };
}

const upload = command({
  name: "backups upload",
  summary: "Make a backup of an addon from a dump in a file",
  args: "ADDON FILE",
  arity: [2, 2],
  about: [
    "The file is what pg_dump --format=custom wrote, or an RDB file of redis. It changes no data: restore it then.",
  ],
  examples: [["backups upload db old.dump", "and then: berth backups restore db BACKUP"]],
  async run({ args: [name, file] }, ctx) {
    const { io, signal } = ctx;
    const at = addonIn(await ctx.at.environment(), name!);
    const dump = await readable(file!);
    const steps = createSteps(io);
    const onProgress = (sent: number) => steps.progress("Uploading", sent, dump.size, bytes(sent));
    const backup = await (await ctx.berth()).backups.upload(at, dump, { signal, onProgress });
    steps.line("Uploading", bytes(dump.size));
    if (io.json) io.outJson(backup);
    else io.out(`${backup.id}  ${bytes(backup.sizeBytes ?? dump.size)}`);
  },
});

async function readable(file: string): Promise<Blob> {
  // A folder can be opened too, and fails only as it is read.
  const isFile = await stat(file).then(
    (found) => found.isFile(),
    () => false,
  );
  const blob = isFile ? await openAsBlob(file).catch(() => undefined) : undefined;
  if (!blob) throw new Failure("refused", `There is no file ${file} that can be read.`);
  return blob;
}

const remove = command({
  name: "backups delete",
  summary: "Delete a backup of an addon",
  args: "[ADDON] BACKUP",
  arity: [1, 2],
  about: ["ADDON is left out for a backup of a deleted addon, which only owners may delete."],
  examples: [["backups delete db bkp_01k9…", "asks first"]],
  options: { yes: { kind: "flag", short: "y", about: "Do not ask" } },
  async run({ args, options: { yes } }, ctx) {
    const { io, signal } = ctx;
    const id = args.at(-1)!;
    const { backups, keptBackups } = await ctx.berth();
    const at = args.length > 1 ? addonIn(await ctx.at.environment(), args[0]!) : undefined;
    const account = at ?? (await ctx.at.account());
    const backup = at
      ? await backups.get(at, id, { signal })
      : await keptBackups.get(account, id, { signal });
    const again = `berth backups delete ${args.join(" ")} --yes`;
    await confirm(io, `Delete the backup of ${momentOf(backup)}?`, yes ?? false, again);
    if (at) await backups.delete(at, id, { signal });
    else await keptBackups.delete(account, id, { signal });
    if (io.json) io.outJson({ deleted: id });
    else io.note(`  Deleted ${id}.`);
  },
});

const restore = command({
  name: "backups restore",
  summary: "Replace all data of an addon by that of a backup, or of a moment",
  args: "ADDON [BACKUP]",
  arity: [1, 2],
  about: [
    "What was written since the backup is lost. If the restore fails, the addon keeps its data.",
    "The backup may be of another addon of the account, such as production's.",
    "With --at in place of BACKUP, a backup of what the addon had then is made first, where it has an archive.",
  ],
  examples: [
    ["backups restore db bkp_01k9…", "asks first, and waits for its end"],
    ["backups restore db --at 2026-11-25T09:00Z", "to what it had then"],
  ],
  options: {
    at: {
      kind: "text",
      value: "TIME",
      about: "Moment whose data it gets back: 10m, 2h, 3d ago, or a time as 2026-11-25T09:00Z",
    },
    yes: { kind: "flag", short: "y", about: "Do not ask" },
  },
  async run({ args: [name, id], options: { at: wanted, yes } }, ctx) {
    const { io, signal } = ctx;
    if ((id === undefined) === (wanted === undefined))
      throw usage("berth backups restore takes either BACKUP or --at TIME.", `berth backups ${name}`);
    const at = addonIn(await ctx.at.environment(), name!);
    const berth = await ctx.berth();
    const moment = id === undefined ? await timeOf(ctx, at, "--at", wanted) : await ownMoment(ctx, at, id);
    const again = `berth backups restore ${name} ${id ?? `--at ${moment}`} --yes`;
    const question =
      moment === undefined
        ? `Replace all data of ${name} by ${id}, a backup of another addon? What ${name} has is lost.`
        : `Replace all data of ${name} by that of ${moment}? What was written since then is lost.`;
    await confirm(io, question, yes ?? false, again);
    const from = id === undefined ? { at: moment! } : { backup: id };
    const { backups } = await berth.backups.restore(at, { ...from, confirmImpact: true }, { signal });
    ctx.sayWhenCanceled(`${name} is restored without this terminal.`, `See it: berth backups ${name}`);
    for (;;) {
      const restored = (await berth.services.get(at, { signal })).backups?.restore;
      if (restored?.status === "failed")
        throw new Failure("refused", `${name} was not restored: ${restored.failure ?? ""}`, again);
      if (restored?.status !== "running") break;
      await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
    if (io.json) io.outJson({ restored: id ?? backups?.restore?.backup });
    else io.note(`  ${name} has the data of ${moment ?? id}.`);
  },
});

/** Returns when an addon had the data of a backup of its own; undefined for a backup of another addon. */
async function ownMoment(ctx: Context, at: ServiceAddress, id: string): Promise<string | undefined> {
  const { backups } = await ctx.berth();
  const found = await backups.get(at, id, { signal: ctx.signal }).catch((error) => {
    if (isRefusal(error, "not_found")) return undefined;
    throw error;
  });
  return found && momentOf(found);
}

const addonIn = (at: EnvironmentAddress, service: string): ServiceAddress => ({ ...at, service });

function painted({ io }: Context, { status }: Backup): string {
  return io.style(status === "succeeded" ? "green" : status === "failed" ? "red" : "yellow", status);
}

/** Returns when an addon had the data of a backup. */
const momentOf = ({ at, startedAt }: Pick<Backup, "at" | "startedAt">) => at ?? startedAt;

function startedOf({ at, startedAt }: Pick<Backup, "at" | "startedAt">, now: number): string {
  return at === undefined ? ago(startedAt, now) : `${ago(startedAt, now)}, as of ${at}`;
}

/** Returns when a backup was last restored to the side, or that it could not be. */
function proofOf({ io }: Context, { provedAt, proofFailure }: Backup, now: number): string {
  if (proofFailure !== undefined) return io.style("red", `failed: ${proofFailure}`);
  return provedAt === undefined ? "–" : ago(provedAt, now);
}

function tookOf({ startedAt, finishedAt }: Backup, now: number): string {
  return duration((finishedAt === undefined ? now : Date.parse(finishedAt)) - Date.parse(startedAt));
}

export const commands = [list, create, upload, download, remove, restore, recover];
