import { existsSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { SERVER_RELEASE, serverArchive } from "../../../services/deployer/addons/local/postgres/programs.ts";
import { run } from "../commands.ts";
import { withLock } from "../lock.ts";
import { installPip } from "../node/packages.ts";
import { folders } from "../settings.ts";

/** Fetches the archive of PostgreSQL's whole server, unless it is there, and returns its path. */
export async function fetchServer(): Promise<string> {
  const folder = folders.images;
  const file = join(folder, `postgresql-${SERVER_RELEASE}-${process.arch}.tar.gz`);
  await withLock(folder, async () => {
    if (existsSync(file)) return;
    await installPip();
    const work = await mkdtemp(join(folder, "postgresql-"));
    try {
      const running = async (program: string, args: string[], { cwd }: { cwd?: string } = {}) => ({
        stdout: await run(program, args, { cwd }),
      });
      await rename(await serverArchive({ work, folder, run: running, progress: console.log }), file);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  });
  return file;
}
