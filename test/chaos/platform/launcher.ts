import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { MAIL_FROM } from "../../../deploy/local/programs/programs.ts";
import { projectDir } from "../../../deploy/local/terminal/options.ts";
import { QUIET } from "../../support/launched.ts";
import { type Platform, readinessOf } from "./platform.ts";

const READY_MS = 180_000;
/** Its data folder may be taken a moment longer. */
const RELAUNCH_MS = 250;

/** Goes on with the data folder of a platform by `npm start` itself, which is started again when it is killed. */
export async function startLauncher(of: Platform, { smtpUrl }: { smtpUrl: string }): Promise<Platform> {
  const ports = JSON.parse(await readFile(join(of.dir, "ports.json"), "utf8")) as Record<string, number>;
  const isReady = readinessOf(ports);
  let child: ChildProcess;
  let stopping = false;
  let output = "";

  function launch(): void {
    if (stopping) return;
    const args = ["deploy/local/main.ts", "--data", of.dir, "--port", String(ports.gateway)];
    child = spawn(process.execPath, args, {
      cwd: projectDir,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...QUIET, SMTP_URL: smtpUrl, MAIL_FROM },
    });
    for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (text) => (output += text));
    child.once("exit", () => {
      if (stopping) return;
      of.restarts.set("launcher", (of.restarts.get("launcher") ?? 0) + 1);
      setTimeout(launch, RELAUNCH_MS);
    });
  }

  async function stop(): Promise<void> {
    stopping = true;
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    }
    await appendFile(join(of.logs, "launcher.log"), output);
  }

  launch();
  for (const deadline = Date.now() + READY_MS; !(await isReady()); await delay(100)) {
    if (Date.now() < deadline) continue;
    await stop();
    throw new Error(`The launcher is not ready:\n${output}`);
  }
  return {
    ...of,
    proxies: new Map(),
    victims: [{ name: "launcher", pid: () => child.pid }],
    isReady,
    stop,
  };
}
