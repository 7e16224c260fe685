import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type BuildPlan, type Dependencies, partitionSteps } from "../detect/build-plan.ts";
import { type CommandContext, runCommand } from "../run-command.ts";

export type DependencyCache = ReturnType<typeof createDependencyCache>;

export type CacheEntry = {
  /** The file that users know to determine the dependencies. */
  unchanged: string;
  /** Copies what an earlier build installed into the app's folder; returns false when there is nothing to copy. */
  restore(signal: AbortSignal): Promise<boolean>;
  /** Replaces the service's copy by what this build installed. */
  store(signal: AbortSignal): Promise<void>;
};

/**
 * Keeps, under `folder`, the dependencies of each service's last build that had to install them. Builds get copies
 * (which share blocks where the file system can), so that no build sees the changes of another.
 */
export function createDependencyCache(folder: string) {
  const folderOf = (serviceId: string) => {
    if (!/^[A-Za-z0-9_-]{1,100}$/.test(serviceId)) throw new Error("not a service id");
    return join(folder, serviceId);
  };
  return {
    /** Returns the entry for this plan's dependencies; undefined when they cannot be reused. */
    async find(
      serviceId: string,
      plan: BuildPlan,
      context: CommandContext,
      signal: AbortSignal,
    ): Promise<CacheEntry | undefined> {
      const { dependencies } = plan;
      if (!dependencies) return undefined;
      const key = await computeKey(plan, dependencies, context, signal);
      return openEntry(folderOf(serviceId), key, dependencies, context);
    },
    remove: (serviceId: string) => rm(folderOf(serviceId), { recursive: true, force: true }),
  };
}

function openEntry(
  serviceFolder: string,
  key: string,
  { folder, files, kind }: Dependencies,
  context: CommandContext,
): CacheEntry {
  const entry = join(serviceFolder, key);
  const target = join(context.cwd, folder);
  const copy = async (from: string, to: string, signal: AbortSignal) => {
    const lines: string[] = [];
    const code = await runCommand(["cp", "-RPp", from, to], context, (line) => void lines.push(line), signal);
    if (code !== 0) throw new Error(`cp ended with ${code}: ${lines.slice(0, 5).join("; ")}`);
  };
  return {
    unchanged: files[0]!,
    async restore(signal) {
      // A source that contains the folder itself is installed, because the install takes it into account.
      if (!existsSync(join(entry, "origin")) || existsSync(target)) return false;
      try {
        await copy(join(entry, "content"), target, signal);
        if (kind === "python") await relocateScripts(target, readFileSync(join(entry, "origin"), "utf8"));
        return true;
      } catch {
        signal.throwIfAborted();
        await rm(target, { recursive: true, force: true });
        return false;
      }
    },
    async store(signal) {
      if (!existsSync(target)) return;
      const fresh = join(serviceFolder, "new");
      try {
        await rm(fresh, { recursive: true, force: true });
        mkdirSync(fresh, { recursive: true, mode: 0o700 });
        await copy(target, join(fresh, "content"), signal);
        writeFileSync(join(fresh, "origin"), target);
        await rm(entry, { recursive: true, force: true });
        renameSync(fresh, entry);
        const others = (await readdir(serviceFolder)).filter((name) => name !== key);
        await Promise.all(
          others.map((name) => rm(join(serviceFolder, name), { recursive: true, force: true })),
        );
      } catch {
        // This build has its dependencies; without a copy, the next one installs again.
        await rm(fresh, { recursive: true, force: true });
        signal.throwIfAborted();
      }
    },
  };
}

/** Returns a hash of everything that determines what is installed: files, commands, the tool and its version. */
async function computeKey(
  plan: BuildPlan,
  { kind, files }: Dependencies,
  context: CommandContext,
  signal: AbortSignal,
): Promise<string> {
  const contents = files.map((file) => {
    const path = join(context.cwd, file);
    return [file, existsSync(path) ? readFileSync(path, "base64") : null];
  });
  const commands = partitionSteps(plan).install.map((step) => step.run);
  const tool = kind === "node" ? process.version : await pythonVersion(context, signal);
  const parts = JSON.stringify([kind, tool, process.platform, process.arch, commands, contents]);
  return createHash("sha256").update(parts).digest("hex");
}

async function pythonVersion(context: CommandContext, signal: AbortSignal): Promise<string> {
  const lines: string[] = [];
  const program = "import sys; print(sys.version, sys.base_prefix, sys.executable)";
  await runCommand(["python3", "-c", program], context, (line) => void lines.push(line), signal);
  return lines.join("\n");
}

/** Rewrites the scripts of a virtual environment, which name its interpreter by its absolute path. */
async function relocateScripts(target: string, origin: string): Promise<void> {
  const scripts = (await readdir(join(target, "bin"), { withFileTypes: true })).filter((one) => one.isFile());
  for (const path of [...scripts.map((one) => join(target, "bin", one.name)), join(target, "pyvenv.cfg")]) {
    const bytes = await readFile(path);
    if (!bytes.includes(0) && bytes.includes(origin))
      await writeFile(path, bytes.toString("utf8").replaceAll(origin, target));
  }
}
