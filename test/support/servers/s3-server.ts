import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { connect } from "node:net";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../../services/kit/process/free-port.ts";

export type S3Server = Awaited<ReturnType<typeof startS3Server>>;

/** Returns the versitygw on the PATH, or the one built for the throw-away cluster; undefined without one. */
export function findS3Server(): string | undefined {
  const home = process.env.BERTH_CLUSTER_DIR ?? join(homedir(), ".cache/berth/cluster");
  const programs = join(home, "bin");
  const built = existsSync(programs) ? readdirSync(programs) : [];
  const found = [
    ...(process.env.PATH ?? "")
      .split(delimiter)
      .filter(Boolean)
      .map((folder) => join(folder, "versitygw")),
    ...built.filter((name) => /^versitygw(-[0-9a-f]+)?$/.test(name)).map((name) => join(programs, name)),
  ];
  return found.find((path) => existsSync(path));
}

/** Starts an S3 server whose buckets are folders in a temporary folder. */
export async function startS3Server(program: string, host = "127.0.0.1") {
  const folder = mkdtempSync(join(tmpdir(), "berth-s3-"));
  const port = await freePort();
  const [accessKey, secretKey] = ["berth-tests", "a-secret-of-the-tests"];
  const server = spawn(program, ["--port", `${host}:${port}`, "posix", folder], {
    env: { PATH: process.env.PATH, ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secretKey },
    stdio: "ignore",
  });
  const ended = once(server, "exit");
  const answers = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, host);
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
  while (!(await answers())) {
    if (server.exitCode !== null) throw new Error(`${program} exited with code ${server.exitCode}`);
    await delay(50);
  }
  return {
    endpoint: `http://${host}:${port}`,
    accessKey,
    secretKey,
    async close() {
      server.kill("SIGKILL");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
