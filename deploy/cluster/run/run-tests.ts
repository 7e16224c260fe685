import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunSettings } from "./run-settings.ts";

const root = join(import.meta.dirname, "../../..");

/** Runs vitest on the files that need a cluster, prints `N passed, N failed`, and returns the exit code. */
export async function runTests(args: string[], run: string): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), "berth-cluster-tests-"));
  const report = join(dir, "report.json");
  try {
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
    const config = ["--config", join(root, "vitest.cluster.config.ts")];
    const code = await runNode([vitest, "run", ...config, ...reporters, ...args], run);
    const { passed, failed } = await count(report);
    // An aborted run is a failure, whatever it has counted.
    const lost = code !== 0 && failed === 0 ? 1 : 0;
    console.log(`${passed} passed, ${failed + lost} failed`);
    return failed + lost === 0 ? 0 : 1;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Runs the program of `npm run bench:cluster` and returns its exit code. */
export async function runBench(args: string[], run: string): Promise<number> {
  return (await runNode([join(root, "test", "bench", "cluster", "main.ts"), ...args], run)) ?? 1;
}

/** Runs a program with the cluster's settings; returns its exit code, null when it was killed. */
async function runNode(args: string[], run: string): Promise<number | null> {
  const { kubeconfig, helm } = JSON.parse(await readFile(run, "utf8")) as RunSettings;
  const env = { ...process.env, BERTH_CLUSTER_RUN: run, KUBECONFIG: kubeconfig, HELM: helm };
  const child = spawn(process.execPath, args, { cwd: root, stdio: "inherit", env });
  // What is told to end first ends the program, which would otherwise use a cluster that is gone. Told again, it ends itself.
  const end = () => child.kill();
  process.once("SIGINT", end).once("SIGTERM", end);
  return new Promise((resolve) => {
    child.on("error", () => resolve(null));
    child.on("exit", resolve);
  });
}

type Report = {
  numPassedTests: number;
  numFailedTests: number;
  testResults: { status: string; assertionResults: unknown[] }[];
};

async function count(report: string): Promise<{ passed: number; failed: number }> {
  const text = await readFile(report, "utf8").catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 1 };
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(text) as Report;
  // A file that could not be loaded has no tests to count.
  const broken = testResults.filter(
    ({ status, assertionResults }) => status === "failed" && !assertionResults.length,
  );
  return { passed: numPassedTests, failed: numFailedTests + broken.length };
}
