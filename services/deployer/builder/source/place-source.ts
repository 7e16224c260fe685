import type { Readable } from "node:stream";
import type { BuildRequest, GitBuildSource } from "../port.ts";
import { unpackArchive } from "./archive/unpack.ts";
import { fetchGit } from "./git/fetch.ts";

type Placement = Pick<BuildRequest, "limits" | "timeoutMs" | "log" | "onCommit"> & {
  /** The empty folder that takes the source. */
  app: string;
  tmp: string;
  env: Record<string, string>;
};

/** Unpacks an uploaded archive of `archiveBytes` into `app`, and logs its size. Throws `BuildFailure`. */
export async function placeArchive(
  archive: Readable,
  archiveBytes: number,
  { app, tmp, limits, log }: Pick<Placement, "app" | "tmp" | "limits" | "log">,
  signal: AbortSignal,
): Promise<void> {
  const { entries, bytes, skipped } = await unpackArchive(archive, app, { limits, tmp }, signal);
  log(`Unpacked ${entries} entries, ${bytes} bytes, from an archive of ${archiveBytes} bytes.`);
  if (skipped > 0) log(`Skipped ${skipped} “._” entries, which only macOS uses.`);
}

/** Fetches the files of a git source into `app`, reports the commit and returns it. Throws `BuildFailure`. */
export async function placeCommit(
  source: GitBuildSource,
  { app, tmp, env, limits, timeoutMs, log, onCommit }: Placement,
  signal: AbortSignal,
): Promise<string> {
  log(`Fetching the branch ${source.branch} of ${source.repository}`);
  const { commit, entries, bytes } = await fetchGit(
    { source, target: app, tmp, env, limits, timeoutMs },
    signal,
  );
  onCommit?.(commit);
  log(`Fetched the commit ${commit}: ${entries} entries, ${bytes} bytes.`);
  return commit;
}
