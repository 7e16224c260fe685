import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Dependencies } from "../detect/dependencies.ts";
import type { BuildPlan } from "../detect/detect.ts";
import { type CommandContext, runCommand } from "../run-command.ts";

export type DependencyCache = ReturnType<typeof createDependencyCache>;

export type CacheEntry = {
  /** The file whose content decides most. */
  unchanged: string;
  /** Copies what an earlier build installed into the app's folder; `false` when there is nothing to copy. */
  restore(signal: AbortSignal): Promise<boolean>;
  /** Keeps a copy of what was installed, in place of what was kept before. */
  store(signal: AbortSignal): Promise<void>;
};

/**
 * Keeps the installed dependencies of each service's last build that had to install, under `folder`. Builds
 * get copies (which share blocks where the file system can): what one does to its own, no other sees.
 */
export function createDependencyCache(folder: string) {
  const placeOf = (serviceId: string) => {
    if (!/^[A-Za-z0-9_-]{1,100}$/.test(serviceId)) throw new Error("not a service id");
    return join(folder, serviceId);
  };
  return {
    /** The entry for this plan's dependencies; undefined when they cannot be taken over. */
    async entryFor(
      serviceId: string,
      plan: BuildPlan,
      place: CommandContext,
      signal: AbortSignal,
    ): Promise<CacheEntry | undefined> {
      const { dependencies } = plan;
      if (!dependencies) return undefined;
      const key = await keyOf(plan, dependencies, place, signal);
      return entry(placeOf(serviceId), key, dependencies, place);
    },
    remove: (serviceId: string) => rm(placeOf(serviceId), { recursive: true, force: true }),
  };
}

function entry(
  own: string,
  key: string,
  { folder, files, kind }: Dependencies,
  place: CommandContext,
): CacheEntry {
  const kept = join(own, key);
  const target = join(place.cwd, folder);
  const copy = async (from: string, to: string, signal: AbortSignal) => {
    const said: string[] = [];
    const code = await runCommand(["cp", "-RPp", from, to], place, (line) => void said.push(line), signal);
    if (code !== 0) throw new Error(`cp ended with ${code}: ${said.slice(0, 5).join("; ")}`);
  };
  return {
    unchanged: files[0]!,
    async restore(signal) {
      // The source may bring a folder of its own, which the install takes into account.
      if (!existsSync(join(kept, "origin")) || existsSync(target)) return false;
      try {
        await copy(join(kept, "content"), target, signal);
        if (kind === "python") await moveScripts(target, readFileSync(join(kept, "origin"), "utf8"));
        return true;
      } catch {
        signal.throwIfAborted();
        await rm(target, { recursive: true, force: true });
        return false;
      }
    },
    async store(signal) {
      if (!existsSync(target)) return;
      const fresh = join(own, "new");
      try {
        await rm(fresh, { recursive: true, force: true });
        mkdirSync(fresh, { recursive: true, mode: 0o700 });
        await copy(target, join(fresh, "content"), signal);
        writeFileSync(join(fresh, "origin"), target);
        await rm(kept, { recursive: true, force: true });
        renameSync(fresh, kept);
        const others = (await readdir(own)).filter((name) => name !== key);
        await Promise.all(others.map((name) => rm(join(own, name), { recursive: true, force: true })));
      } catch {
        // The build has what it needs; the next one installs again.
        await rm(fresh, { recursive: true, force: true });
        signal.throwIfAborted();
      }
    },
  };
}

/** Changes with the files that decide, the tool and its version, and how it is called. */
async function keyOf(
  plan: BuildPlan,
  { kind, files }: Dependencies,
  place: CommandContext,
  signal: AbortSignal,
): Promise<string> {
  const contents = files.map((file) => {
    const path = join(place.cwd, file);
    return [file, existsSync(path) ? readFileSync(path, "base64") : null];
  });
  const installs = plan.steps.filter((step) => step.failure === "install_failed").map((step) => step.run);
  const tool = kind === "node" ? process.version : await pythonVersion(place, signal);
  const parts = JSON.stringify([kind, tool, process.platform, process.arch, installs, contents]);
  return createHash("sha256").update(parts).digest("hex");
}

async function pythonVersion(place: CommandContext, signal: AbortSignal): Promise<string> {
  const lines: string[] = [];
  const program = "import sys; print(sys.version, sys.base_prefix, sys.executable)";
  await runCommand(["python3", "-c", program], place, (line) => void lines.push(line), signal);
  return lines.join("\n");
}

/** The scripts of a virtual environment name its interpreter by its whole path. */
async function moveScripts(target: string, origin: string): Promise<void> {
  const scripts = (await readdir(join(target, "bin"), { withFileTypes: true })).filter((one) => one.isFile());
  for (const path of [...scripts.map((one) => join(target, "bin", one.name)), join(target, "pyvenv.cfg")]) {
    const bytes = await readFile(path);
    if (!bytes.includes(0) && bytes.includes(origin))
      await writeFile(path, bytes.toString("utf8").replaceAll(origin, target));
  }
}
