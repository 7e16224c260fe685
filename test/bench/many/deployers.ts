import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { NODE_FLAGS } from "../../../deploy/local/programs/program-process.ts";
import { insertRunning, manyReleases } from "../../../services/deployer/runtime/kubernetes/many/testing.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { migrate } from "../../../services/kit/postgres/migrate.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { CALLER_HEADER, signCaller } from "../../../services/kit/rpc/caller-token.ts";
import { testNats } from "../../support/servers/nats.ts";
import { startS3Server } from "../../support/servers/s3-server.ts";
import type { Platform } from "../platform.ts";
import { scratchDatabase } from "../scratch.ts";
import { insertAddons, manyAddons } from "./addons.ts";
import { type ClusterStart, startCluster } from "./cluster.ts";
import { timeUntil } from "./figures.ts";

export type Installation = Awaited<ReturnType<typeof startInstallation>>;
export type Deployer = Awaited<ReturnType<Installation["startDeployer"]>>;

type Path = { accountId: string; projectId: string; [member: string]: string };

const services = resolve(import.meta.dirname, "../../../services");
/** What Node takes in a pod with the chart's limit of 512 MiB. */
const HEAP_MIB = 259;
/** As services are that have run for long: heartbeats are due all the time. */
const SPREAD_HEARTBEATS = "update usage_intervals set heartbeat_at = now() - random() * interval '5 minutes'";

/** Starts all that deployers of a cluster need where so many services run, which their database knows of. */
export async function startInstallation(platform: Platform, s3Program: string, size: ClusterStart) {
  const stops: (() => unknown)[] = [];
  const stop = async () => {
    for (const one of stops.splice(0).reverse()) await one();
  };
  const start = async () => {
    const [database, nats, s3, folder] = await Promise.all([
      scratchDatabase(platform),
      testNats(),
      startS3Server(s3Program),
      mkdtemp(join(tmpdir(), "berth-bench-")),
    ]);
    stops.push(database.drop, nats.remove, s3.close, () => rm(folder, { recursive: true, force: true }));
    const urlOf = (schema: string) => `${database.url}?options=-c%20search_path%3D${schema}`;
    const pool = createPool(urlOf("deployer"));
    stops.push(() => pool.end());
    for (const schema of ["deployer", "variables"]) await pool.query(`create schema ${schema}`);
    const [variablesPort, ...ports] = await Promise.all([freePort(), freePort(), freePort()]);
    const key = () => randomBytes(32).toString("base64");
    const common = { NATS_URL: nats.url, INTERNAL_KEYS: key(), LOG_LEVEL: "warn" };
    const env = {
      ...common,
      ...{ ENGINE: "kubernetes", KUBE_WATCH: "cluster", KUBECONFIG: join(folder, "kubeconfig") },
      ...{ KUBE_NAMESPACE_PREFIX: "many", KUBE_BUILD_NAMESPACE: "many-home", APPS_DOMAIN: "example.test" },
      ...{ BUILDER_IMAGE: "example.test/builder", REGISTRY_PUSH: "10.0.0.1/b", REGISTRY_PULL: "10.0.0.1/b" },
      ...{ S3_ENDPOINT: s3.endpoint, S3_ACCESS_KEY: s3.accessKey, S3_SECRET_KEY: s3.secretKey },
      ...{ DEFAULT_TIER: "team", PLAN_QUOTAS: "on", IMAGE_DIGESTS: "off", SECRET_KEYS: key() },
      DATABASE_URL: urlOf("deployer"),
      VARIABLES_URL: `http://127.0.0.1:${variablesPort}`,
    };
    const NODE_OPTIONS = `--max-old-space-size=${HEAP_MIB} ${process.env.NODE_OPTIONS ?? ""}`;
    const cluster = await startCluster(env, size);
    stops.push(cluster.stop);
    await writeFile(env.KUBECONFIG, cluster.kubeconfig);
    await migrate(pool, join(services, "deployer/migrations"));
    await insertRunning(pool, manyReleases(size.environments, size.services));
    await insertAddons(pool, manyAddons(size.environments), env.SECRET_KEYS);
    await pool.query(SPREAD_HEARTBEATS);
    await pool.query("analyze");
    const variables = {
      ...{ ...common, DATABASE_URL: urlOf("variables"), ENCRYPTION_KEYS: `bench:${key()}` },
      // The one that lives longer.
      DEPLOYER_URL: `http://127.0.0.1:${ports[1]}`,
    };
    stops.push((await startProcess("variables", variables, variablesPort)).kill);
    return {
      pool,
      cluster,
      size,
      /** Sets a variable of a project. */
      setVariable: (path: Path, name: string, value: string) =>
        call(variablesPort, env.INTERNAL_KEYS, "berth.variables.v1.VariablesService/CreateVariable", {
          ...path,
          ...{ name, value },
        }),
      /** Starts the first or the second deployer, and waits until it is ready. */
      async startDeployer(at: 0 | 1) {
        const deployer = await startProcess("deployer", { ...env, NODE_OPTIONS }, ports[at]!);
        stops.push(deployer.kill);
        const deploy = (path: Path, image: string) =>
          call(ports[at]!, env.INTERNAL_KEYS, "berth.deployer.v1.DeploymentService/Deploy", {
            ...path,
            image,
          });
        return { ...deployer, deploy };
      },
      stop,
    };
  };
  return start().catch(async (error) => {
    await stop();
    throw error;
  });
}

async function startProcess(service: string, env: Record<string, string>, port: number) {
  const child = spawn(process.execPath, [...NODE_FLAGS, join(services, service, "main.ts")], {
    env: { PATH: process.env.PATH, MALLOC_ARENA_MAX: "1", ...env, PORT: String(port) },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz?exclude=events`).then(
      ({ ok }) => ok,
      () => false,
    );
  await timeUntil(async () => {
    if (hasEnded(child)) throw new Error(`${service} ended at its start`);
    return isReady();
  });
  return { pid: child.pid!, kill: () => endNow(child) };
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;

async function endNow(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Calls a service as the gateway does for the owner of an account. */
async function call(port: number, keys: string, method: string, message: Path): Promise<void> {
  const { accountId } = message;
  const owner = { kind: "user", id: "usr_bench", accountId, role: "owner", ip: "127.0.0.1" } as const;
  const answer = await fetch(`http://127.0.0.1:${port}/${method}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      [CALLER_HEADER]: signCaller([Buffer.from(keys, "base64")], owner),
    },
    body: JSON.stringify(message),
  });
  if (!answer.ok) throw new Error(`${method} answered ${answer.status}: ${await answer.text()}`);
}
