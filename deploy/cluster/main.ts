import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ClusterFailure, run, timed, until } from "./commands.ts";
import { fetchBases, pushBases } from "./images/base-images.ts";
import { withLock } from "./lock.ts";
import { connectNode, findNodeProcess, removeNode, requireAddresses, startNode } from "./node/host.ts";
import { prepareNode, programLinks, template } from "./node/node-files.ts";
import { findObstacle, installPackages } from "./node/packages.ts";
import { buildPrograms } from "./node/programs.ts";
import { installCloudNativePg } from "./operator.ts";
import { prepareRun } from "./run/run-settings.ts";
import { runBench, runTests } from "./run/run-tests.ts";
import {
  kubeconfig,
  logFile,
  nodeName,
  registry,
  runtimeDir,
  withCloudNativePg,
  withEarlierCloudNativePg,
} from "./settings.ts";

const commands: Record<string, (args: string[]) => Promise<void>> = {
  build,
  up,
  down,
  kubectl,
  check,
  test,
  bench,
};

/** Builds and fetches everything that takes long, and starts nothing. */
async function build(): Promise<void> {
  await requirePossible();
  await installPackages();
  await Promise.all([buildPrograms(), fetchBases()]);
}

async function up(): Promise<void> {
  if (process.env.KUBECONFIG) {
    console.log(`KUBECONFIG is set: using that cluster, and starting none (${process.env.KUBECONFIG}).`);
    return;
  }
  await requirePossible();
  await withLock(runtimeDir, async () => {
    if ((await findNodeProcess()) !== undefined) return console.log("The cluster is already up.");
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
  const configMap = [
    "create",
    "configmap",
    "program",
    "-n",
    "ingress",
    `--from-file=${program}`,
    "--dry-run=client",
    "-o=yaml",
  ];
  await apply(await kube(...configMap));
  await kube("rollout", "status", "deployment/ingress", "-n", "ingress", "--timeout=60s");
}

async function down(): Promise<void> {
  if (process.env.KUBECONFIG) return console.log("KUBECONFIG is set: that cluster is left as it is.");
  await requirePossible();
  await withLock(runtimeDir, async () => {
    console.log((await removeNode()) ? "The cluster is removed." : "There is no cluster.");
  });
}

/** Runs kubectl against the cluster, or against the one that KUBECONFIG names. */
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
 * Starts the cluster, runs the tests that need one, and removes it unless it was up before or `--keep` is given. All
 * other arguments are passed to vitest. With your own KUBECONFIG, BERTH_CLUSTER_RUN describes that cluster.
 */
function test(args: string[]): Promise<void> {
  return onCluster(args, runTests);
}

/** Like `test`, for the rows of `npm run bench:cluster`. */
function bench(args: string[]): Promise<void> {
  return onCluster(args, runBench);
}

async function onCluster(args: string[], work: typeof runTests): Promise<void> {
  const own = process.env.KUBECONFIG !== undefined;
  if (own && !process.env.BERTH_CLUSTER_RUN)
    throw new ClusterFailure(
      "With KUBECONFIG, BERTH_CLUSTER_RUN must name a file: see deploy/cluster/README.md.",
    );
  const keep = own || args.includes("--keep") || (await findNodeProcess()) !== undefined;
  try {
    if (!own) await up();
    const run = process.env.BERTH_CLUSTER_RUN ?? (await prepareOwn());
    process.exitCode = await work(
      args.filter((arg) => arg !== "--keep"),
      run,
    );
  } finally {
    if (!keep) await down();
  }
}

async function prepareOwn(): Promise<string> {
  const { file, images } = await prepareRun();
  if (withCloudNativePg) await installCloudNativePg(images);
  else console.log("Tests of CloudNativePG are left out: npm run test:cnpg builds it, and runs them.");
  if (!withEarlierCloudNativePg)
    console.log(
      "Tests of its upgrade are left out: npm run test:cnpg-upgrade also builds the release before.",
    );
  return file;
}

/** Says whether the cluster can run on this machine; exits with 3 when it cannot. */
async function check(): Promise<void> {
  await requirePossible();
  console.log("The cluster can run on this machine.");
}

async function requirePossible(): Promise<void> {
  const reason = await findObstacle();
  if (reason === undefined) return;
  console.error(`The throw-away cluster cannot run on this machine: ${reason}.`);
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
