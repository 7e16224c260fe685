import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "../../../deploy/local/nats/install.ts";
import { startNats } from "../../../deploy/local/nats/nats.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { programsDir } from "../../../services/kit/process/program.ts";

/** Starts a separate NATS server on a free port; `restart` starts it again with its data. */
export async function testNats(kept?: { dir: string; port: number }): Promise<TestNats> {
  const dir = kept?.dir ?? (await mkdtemp(join(tmpdir(), "berth-nats-")));
  const binary = await findNatsServer(programsDir, () => {});
  const server = await startNats({ binary, dir, port: kept?.port ?? (await freePort()) });
  return {
    url: server.url,
    dir,
    pid: server.pid,
    stop: () => server.stop(),
    restart: () => testNats({ dir, port: server.port }),
    remove: async () => {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
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
