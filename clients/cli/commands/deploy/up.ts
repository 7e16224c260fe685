import { relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused } from "../../failure.ts";
import { pack } from "../../pack/archive.ts";
import { type Listing, largestFolders, listFolder, type PackedEntry } from "../../pack/walk.ts";
import { bytes, count } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";
import { finish } from "./follow.ts";
import { createSteps } from "./steps.ts";

const LARGE_BYTES = 1_000_000;
/** How long a new account may take to be provisioned. */
const PROVISIONING_MS = 60_000;
const PROVISIONING_PAUSE_MS = 1_000;

const up = command({
  name: "up",
  summary: "Deploy a folder and follow it until it is healthy",
  args: "[FOLDER]",
  arity: [0, 1],
  about: [
    "Packs the folder, uploads it, shows the build and the rollout, and prints the address. The exit code is the verdict: 0 healthy, 3 failed. Ctrl-C stops watching; the deployment continues.",
    "What is packed: everything that is not ignored by --exclude and --include, else by .berthignore, else by .gitignore. The rules are git's. .git is never packed.",
  ],
  examples: [
    ["up", "deploy this folder"],
    ["up --dry-run", "show what would be sent, and send nothing"],
    ["up shop -s web --detach", "deploy the folder shop to the service web, and do not wait"],
  ],
  options: {
    detach: { kind: "flag", short: "d", about: "Do not wait: print the version and end" },
    "dry-run": { kind: "flag", about: "Show what would be sent. Nothing is sent, and no sign-in is needed" },
    exclude: {
      kind: "list",
      value: "PATTERN",
      about: "Leave out what a line of .gitignore would; may be repeated",
    },
    include: {
      kind: "list",
      value: "PATTERN",
      about: "Pack it although another rule ignores it; may be repeated",
    },
  },
  async run({ args: [folder = "."], options }, ctx) {
    const { io, signal } = ctx;
    const listing = await listFolder(folder, options);
    if (!listing.entries.some(({ kind }) => kind === "file"))
      throw refused(
        `There is nothing to pack in ${folder}${listing.rules ? `: ${listing.rules} ignores everything` : ""}.`,
        "berth up FOLDER",
      );
    if (options["dry-run"]) return printListing(ctx, listing);
    ctx.lookFrom(folder);
    const at = await ctx.at.service();
    const berth = await ctx.berth();
    const steps = createSteps(io);
    steps.line("Packing", describe(listing, folder));
    for (const path of listing.leftOut) steps.line("", `left out: ${path} is no file`);
    const secrets = listing.entries.filter(({ path }) => /(^|\/)\.env(\.[^/]*)?$/.test(path));
    for (const { path } of secrets)
      steps.line("", `${path} is sent too. Better: ignore it, and berth vars import ${path}`);
    ctx.sayWhenCanceled("Nothing was deployed.");
    const archive = await pack(listing, signal);
    try {
      const { size } = archive.blob;
      const onProgress = (sent: number) => steps.progress("Uploading", sent, size, bytes(sent));
      const archiveRef = await sizeChecked(listing, () =>
        provisioned(ctx, () => berth.deployments.upload(at, archive.blob, { signal, onProgress })),
      );
      steps.line("Uploading", bytes(size));
      ctx.sayWhenCanceled("It may have been accepted: berth status --deployments");
      const accepted = await sizeChecked(listing, () =>
        provisioned(ctx, () => berth.deployments.deployFromArchive(at, { archiveRef }, { signal })),
      );
      return await sizeExplained(ctx, listing, () => finish(ctx, at, accepted, options.detach));
    } finally {
      await archive.remove();
    }
  },
});

/** Repeats a request while the account is being provisioned, which takes moments after it was created. */
async function provisioned<T>({ signal, io }: Context, work: () => Promise<T>): Promise<T> {
  const until = performance.now() + PROVISIONING_MS;
  for (let said = false; ; said = true) {
    try {
      return await work();
    } catch (error) {
      if (!isRefusal(error, "account_not_provisioned") || performance.now() > until) throw error;
      if (!said) io.note("  The account is being provisioned …");
      await delay(PROVISIONING_PAUSE_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** Names the largest folders when the archive is over a limit. */
async function sizeChecked<T>(listing: Listing, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isRefusal(error) || !error.details.some(({ reason }) => reason === "archive_too_large")) throw error;
    throw refused(`${error.message} ${largest(listing)}`, "berth up --dry-run", "archive_too_large");
  }
}

/** The same for the limits that only the build knows. */
async function sizeExplained(ctx: Context, listing: Listing, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (/^archive_too_/.test((error as { code?: string }).code ?? "")) ctx.io.note(`  ${largest(listing)}`);
    throw error;
  }
}

function largest(listing: Listing): string {
  const folders = largestFolders(listing, 3).map(({ path, size }) => `${path} (${bytes(size)})`);
  return `Largest: ${folders.join(", ")}.`;
}

const sizeOf = (entry: PackedEntry) => (entry.kind === "file" ? entry.size : 0);
const filesOf = ({ entries }: Listing) => entries.filter(({ kind }) => kind === "file");

function describe(listing: Listing, folder: string): string {
  const files = filesOf(listing);
  const total = bytes(files.reduce((sum, entry) => sum + sizeOf(entry), 0));
  const large = files.filter((entry) => sizeOf(entry) > LARGE_BYTES).length;
  const name = relative("", listing.folder) || folder;
  const more = [listing.rules, large > 0 && `${large} larger than 1 MB: berth up --dry-run`].filter(Boolean);
  return `${name}  ${count(files.length, "file")}, ${total}${more.length > 0 ? `  (${more.join("; ")})` : ""}`;
}

function printListing({ io }: Context, listing: Listing): void {
  const { entries, rules, leftOut } = listing;
  const files = filesOf(listing);
  const total = files.reduce((sum, entry) => sum + sizeOf(entry), 0);
  if (io.json) {
    io.outJson({
      data: entries.map((entry) => ({
        path: entry.path,
        kind: entry.kind,
        ...(entry.kind === "file" && { size: entry.size, executable: entry.executable }),
        ...(entry.kind === "link" && { target: entry.target }),
      })),
      files: files.length,
      bytes: total,
      ...(rules && { rules }),
      leftOut,
    });
    return;
  }
  const mark = (entry: PackedEntry) =>
    entry.kind === "folder"
      ? "/"
      : entry.kind === "link"
        ? ` → ${entry.target}`
        : entry.executable
          ? "*"
          : "";
  const rows = entries.map((entry) => [
    entry.kind === "file" ? bytes(entry.size).padStart(8) : "".padStart(8),
    io.shown(entry.path + mark(entry)),
  ]);
  printTable(io, ["    SIZE", "PATH"], rows);
  io.note(
    `  ${count(files.length, "file")}, ${bytes(total)} before compression${rules ? ` (${rules})` : ""}`,
  );
  for (const path of leftOut) io.note(`  left out: ${path} is no file`);
  io.note(`  ${largest(listing)}`);
}

export const commands = [up];
