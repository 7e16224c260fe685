import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fetchBases, pushBases } from "./images/base-images.ts";
import { connectNode, keeper, removeNode, requireAddresses, startNode } from "./node/host.ts";
import { prepareNode, programLinks, template } from "./node/node-files.ts";
import { installPackages, obstacle } from "./node/packages.ts";
import { buildPrograms } from "./node/programs.ts";
import { ClusterFailure, run, timed, until } from "./run/commands.ts";
import { withLock } from "./run/lock.ts";
import { prepareRun } from "./run/run-settings.ts";
import { runBench, runTests } from "./run/run-tests.ts";
import { kubeconfig, logFile, nodeName, registry, runtimeDir } from "./settings.ts";

const commands: Record<string, (args: string[]) => Promise<void>> = {
  build,
  up,
  down,
  kubectl,
  check,
  test,
  bench,
};

/** Everything that takes long, without bringing anything up. */
async function build(): Promise<void> {
  await requirePossible();
  await installPackages();
  await Promise.all([buildPrograms(), fetchBases()]);
}

async function up(): Promise<void> {
  if (process.env.KUBECONFIG) {
    console.log(
      `KUBECONFIG is set: that cluster is used, nothing is brought up (${process.env.KUBECONFIG}).`,
    );
    return;
  }
  await requirePossible();
  await withLock(runtimeDir, async () => {
    if ((await keeper()) !== undefined) return console.log("The cluster is up already.");
    await build();
    await removeNode();
    await requireAddresses();
    try {
      await timed("The cluster is up", start);
    } catch (error) {
      await removeNode();
      throw error;
    }
  });
  console.log(`export KUBECONFIG=${kubeconfig}`);
}

async function start(): Promise<void> {
  const image = (name: string) => `${registry.pull}/${name}:1`;
  await prepareNode({ helper: image("base") });
  await connectNode(await startNode());
  const log = () => readFileSync(logFile("node"), "utf8");
  await until("all components run", async () => log().includes("all components run"), 120);
  await pushBases();
  const ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';
  await until("the node is ready", async () => (await kube("get", "node", nodeName, "-o", ready)) === "True");
  await until("service accounts", async () => (await kube("get", "serviceaccount", "default")) !== "");
  await applyTemplate("storage.yaml");
  const program = join(import.meta.dirname, "ingress.ts");
  await applyTemplate("ingress.yaml", { IMAGE: image("node") });
  const map = [
    "create",
    "configmap",
    "program",
    "-n",
    "ingress",
    `--from-file=${program}`,
    "--dry-run=client",
    "-o=yaml",
  ];
  await apply(await kube(...map));
  await kube("rollout", "status", "deployment/ingress", "-n", "ingress", "--timeout=60s");
}

async function down(): Promise<void> {
  if (process.env.KUBECONFIG) return console.log("KUBECONFIG is set: that cluster is left alone.");
  await requirePossible();
  await withLock(runtimeDir, async () => {
    console.log((await removeNode()) ? "The cluster is gone." : "There was no cluster.");
  });
}

/** Run kubectl against the cluster, or against the one that KUBECONFIG names. */
async function kubectl(args: string[]): Promise<void> {
  const own = join(programLinks, "kubectl");
  const env = { KUBECONFIG: kubeconfig, ...process.env };
  const child = spawn(existsSync(own) ? own : "kubectl", args, { stdio: "inherit", env });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", resolve);
  });
  process.exitCode = code ?? 1;
}

/**
 * Bring the cluster up, run the tests that need one, take it down again unless it was up before (or `--keep`).
 * Everything else goes to vitest. With a KUBECONFIG of your own, BERTH_CLUSTER_RUN describes that cluster.
 */
function test(args: string[]): Promise<void> {
  return onCluster(args, runTests);
}

/** As `test`, for the rows of `npm run bench:cluster`. */
function bench(args: string[]): Promise<void> {
  return onCluster(args, runBench);
}

async function onCluster(args: string[], work: typeof runTests): Promise<void> {
  const own = process.env.KUBECONFIG !== undefined;
  if (own && !process.env.BERTH_CLUSTER_RUN)
    throw new ClusterFailure(
      "With KUBECONFIG, BERTH_CLUSTER_RUN must name a file: see deploy/cluster/README.md.",
    );
  const keep = own || args.includes("--keep") || (await keeper()) !== undefined;
  try {
    if (!own) await up();
    const run = process.env.BERTH_CLUSTER_RUN ?? (await prepareRun());
    process.exitCode = await work(
      args.filter((arg) => arg !== "--keep"),
      run,
    );
  } finally {
    if (!keep) await down();
  }
}

/** Say whether this machine can have the cluster; exit code 3 when not. */
async function check(): Promise<void> {
  await requirePossible();
  console.log("This machine can have the cluster.");
}

async function requirePossible(): Promise<void> {
  const reason = await obstacle();
  if (reason === undefined) return;
  console.error(`No throw-away cluster on this machine: ${reason}.`);
  process.exit(3);
}

const kube = (...args: string[]) => run(join(programLinks, "kubectl"), ["--kubeconfig", kubeconfig, ...args]);
const apply = (yaml: string) =>
  run(join(programLinks, "kubectl"), ["--kubeconfig", kubeconfig, "apply", "-f", "-"], { input: yaml });

async function applyTemplate(name: string, values?: Record<string, string>): Promise<void> {
  await apply(await template(name, values));
}

const [name = "", ...args] = process.argv.slice(2);
const command = commands[name];
if (!command) {
  console.error(`usage: node deploy/cluster/main.ts ${Object.keys(commands).join("|")}`);
  process.exit(2);
}
try {
  await command(args);
} catch (error) {
  console.error(error instanceof ClusterFailure ? error.message : error);
  process.exit(1);
}
