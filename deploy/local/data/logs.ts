import { mkdir, open, readdir, rename, stat } from "node:fs/promises";
import { basename, join } from "node:path";

/** Makes the folder for logs, and renames the previous run's logs to `<name>.log.1`. */
export async function rotateLogs(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(dir)) {
    if (name.endsWith(".log")) await rename(join(dir, name), join(dir, `${name}.1`));
  }
}

/**
 * Calls `write` with each line that processes append to the log files, prefixed with the file's name, until `stop`.
 * The files need not exist yet.
 */
export function followLogs(files: string[], write: (line: string) => void): { stop(): Promise<void> } {
  const followed = files.map((file) => ({ file, name: basename(file, ".log"), position: 0, rest: "" }));
  const poll = async () => {
    for (const log of followed) await readAppended(log, write);
  };
  let polling = Promise.resolve();
  const timer = setInterval(() => {
    polling = polling.then(poll);
  }, 200);
  return {
    stop: async () => {
      clearInterval(timer);
      await polling.then(poll);
    },
  };
}

type Followed = { file: string; name: string; position: number; rest: string };

async function readAppended(log: Followed, write: (line: string) => void): Promise<void> {
  const { size } = await stat(log.file).catch(() => ({ size: 0 }));
  if (size <= log.position) return;
  const file = await open(log.file);
  try {
    const length = Math.min(size - log.position, 1024 * 1024);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, log.position);
    log.position += bytesRead;
    const lines = (log.rest + buffer.toString("utf8", 0, bytesRead)).split("\n");
    log.rest = lines.pop() ?? "";
    for (const line of lines) write(`${log.name.padEnd(9)} | ${line}`);
  } finally {
    await file.close();
  }
}
