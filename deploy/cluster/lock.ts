import { setTimeout as delay } from "node:timers/promises";
import { type FolderLock, lockFolder } from "../local/data/folder-lock.ts";
import { StartFailure } from "../local/failure.ts";

/** Does `work` while holding the lock of a folder; waits while another process holds it. */
export async function withLock<T>(dir: string, work: () => Promise<T>): Promise<T> {
  const lock = await take(dir);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

async function take(dir: string): Promise<FolderLock> {
  for (let reported = false; ; reported = true) {
    try {
      return await lockFolder(dir);
    } catch (error) {
      if (!(error instanceof StartFailure && error.kind === "folderTaken")) throw error;
      if (!reported) console.log(`Waiting: ${error.message.split(". ")[0]}.`);
      await delay(500);
    }
  }
}
