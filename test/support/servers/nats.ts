import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "../../../deploy/local/nats/install.ts";
import { type NatsServer, startNats } from "../../../deploy/local/nats/nats.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { programsDir } from "../../../services/kit/process/program.ts";

/** Starts a separate NATS server on a free port; `restart` starts it again with its data. */
export async function testNats(): Promise<TestNats> {
  const dir = await mkdtemp(join(tmpdir(), "berth-nats-"));
  const binary = await findNatsServer(programsDir, () => {});
  const port = await freePort();
  let server: NatsServer;
  const start = async (): Promise<TestNats> => {
    server = await startNats({ binary, dir, port });
    const { url, pid, stop } = server;
    return { url, dir, pid, stop, restart: start, remove };
  };
  // Whichever was started last: one that still wrote would bring back what is removed.
  const remove = async () => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  };
  return start();
}

export type TestNats = {
  url: string;
  /** Its folder, with the store in `data`. */
  dir: string;
  pid: number;
  stop: () => Promise<void>;
  restart: () => Promise<TestNats>;
  remove: () => Promise<void>;
};
