import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGzip } from "node:zlib";
import tar from "tar-stream";
import { inject } from "vitest";
import { CatalogService } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import {
  type DeployFromArchiveResult,
  type Deployment,
  DeploymentService,
  type DeployResult,
  type DryRun,
} from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { testNats } from "../../../test/support/servers/nats.ts";
import { connectBus, STREAM } from "../../kit/events/bus.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { createEntitlements } from "../../kit/plans.ts";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { readConfig } from "../../kit/process/config.ts";
import { freePort } from "../../kit/process/free-port.ts";
import { programsDir } from "../../kit/process/program.ts";
import type { RoleName } from "../../kit/rpc/caller-token.ts";
import { clientAs, eventually, migratedDatabase, testKeys } from "../../kit/testing/testing.ts";
import { fields } from "../config.ts";
import { start } from "../main.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { startVariablesService } from "./variables-service.ts";

/** Every account is on the free plan, without its quotas: of a deployer's environment, and for a reconciler alone. */
export const FREE_PLAN = { DEFAULT_TIER: "free", PLAN_QUOTAS: "off" };
export const freePlan = createEntitlements({
  defaultTier: "free",
  planQuotas: "off",
  planOpenPorts: {},
  planSizes: {},
  planStorage: {},
  planBackupDays: {},
});

/** Starts what a deployer needs: database, NATS, a variables service and a data folder. The test starts the deployer. */
export async function startTestPlatform() {
  const [database, nats, dataDir] = await Promise.all([
    migratedDatabase(),
    testNats(),
    mkdtemp(join(tmpdir(), "berth-deployer-")),
  ]);
  const variables = await startVariablesService(database.url("variables"), nats.url);
  const key = () => randomBytes(32).toString("base64");
  const port = await freePort();
  const env: Record<string, string> = {
    DATABASE_URL: database.url("deployer"),
    NATS_URL: nats.url,
    PORT: String(port),
    INTERNAL_KEYS: testKeys.map((one) => one.toString("base64")).join(","),
    LOG_LEVEL: "silent",
    DATA_DIR: dataDir,
    PROGRAMS_DIR: programsDir,
    ROUTER_PORT: String(await freePort()),
    PUBLIC_ORIGIN: `http://127.0.0.1:${port}`,
    ADDON_POSTGRES_URL: inject("postgresAdminUrl"),
    VARIABLES_URL: variables.url,
    SECRET_KEYS: key(),
    UPLOAD_KEYS: key(),
    // Tests of backups look at all that is left of them.
    ADDON_PROOFS: "off",
    // Tests hold commits for as long as they need.
    DATABASE_LOCK_TIMEOUT_MS: "0",
    DATABASE_STATEMENT_TIMEOUT_MS: "0",
  };
  const pool = createPool(database.url("deployer"));
  return {
    database,
    nats,
    dataDir,
    variables,
    port,
    env,
    pool,
    stop: async () => {
      await pool.end();
      await variables.stop();
      await Promise.all([database.drop(), nats.remove(), rm(dataDir, { recursive: true, force: true })]);
    },
  };
}

export type TestPlatform = Awaited<ReturnType<typeof startTestPlatform>>;

/** Returns clients and helpers that act as a member of an account. */
export function actAs(port: number, accountId: string, role: RoleName = "owner") {
  const caller = { accountId, role };
  const catalog = clientAs(CatalogService, port, caller);
  const client = clientAs(DeploymentService, port, caller);
  const deployments = {
    ...client,
    deploy: async (request: Parameters<typeof client.deploy>[0]) => accepted(await client.deploy(request)),
    rollback: async (request: Parameters<typeof client.rollback>[0]) =>
      accepted(await client.rollback(request)),
  };
  const service = (path: ServicePath) => catalog.getService(path);
  return {
    accountId,
    catalog,
    deployments,
    /** Dry runs. */
    tryOut: {
      deploy: async (request: ServicePath & { image?: string }) =>
        tried(await client.deploy({ ...request, dryRun: true })),
      rollback: async (request: ServicePath & { version: number }) =>
        tried(await client.rollback({ ...request, dryRun: true })),
      deployFromArchive: async (request: ServicePath & { archiveRef: string }) =>
        tried(await client.deployFromArchive({ ...request, dryRun: true })),
    },
    service,
    /** Creates a project with a unique name and one environment. */
    async environment() {
      const name = `p${randomBytes(4).toString("hex")}`;
      const project = await catalog.createProject({ accountId, name });
      const projectId = project.id;
      const made = await catalog.createEnvironment({ accountId, projectId, name: "production" });
      const base = { accountId, projectId, environmentId: made.id };
      return { ...base, project: name, at: (service: string) => ({ ...base, service }) };
    },
    /** Uploads an archive and deploys it. */
    async deployArchive(path: ServicePath, archive: Buffer) {
      const archiveRef = await upload(deployments.createUpload(path), archive);
      const { result } = await deployments.deployFromArchive({ ...path, archiveRef });
      if (result.case !== "deployment") throw new Error("was not deployed");
      return result.value;
    },
    /** Waits until a version has one of the statuses. */
    until: (path: ServicePath, version: number, ...statuses: string[]) =>
      eventually(`version ${version} is ${statuses.join(" or ")}`, async () => {
        const found = await deployments.getDeployment({ ...path, version });
        return statuses.includes(found.status) && found;
      }),
    /** Waits until a service has the status. */
    untilService: (path: ServicePath, status: string) =>
      eventually(`${path.service} is ${status}`, async () => {
        const found = await service(path);
        return found.status === status && found;
      }),
  };
}

function accepted({ result }: DeployResult): Deployment {
  if (result.case !== "deployment") throw new Error(`was not deployed, but answered ${result.case}`);
  return result.value;
}

function tried({ result }: DeployResult | DeployFromArchiveResult): DryRun {
  if (result.case !== "dryRun") throw new Error(`was no dry run, but answered ${result.case}`);
  return result.value;
}

/** Waits until the reconciler works on a service, or has nothing to do with it. */
export function untilWork(pool: Pool, serviceId: string, is: "begun" | "done"): Promise<boolean> {
  const text = `select from work where service_id = $1 and case when lease_owner is null
    then not $2 and coalesce(next_at > now(), true) else $2 end`;
  const isSo = async () => (await pool.query(text, [serviceId, is === "begun"])).rowCount === 1;
  return eventually(`the work on a service is ${is}`, isSo);
}

/** Creates a web service in an account of its own. Returns `actAs` of its owner with the service's id and path. */
export async function createWebService(port: number, more: object = {}) {
  const acting = actAs(port, newId("acc"));
  const environment = await acting.environment();
  const { id } = await acting.catalog.createService({ ...environment, name: "web", type: "web", ...more });
  return { ...acting, environment, id, path: environment.at("web") };
}

/** Returns the files of an example app under test/apps. */
export async function exampleApp(name: string): Promise<Record<string, string>> {
  const folder = join(import.meta.dirname, "../../../test/apps", name);
  const names = await readdir(folder);
  const texts = await Promise.all(names.map((file) => readFile(join(folder, file), "utf8")));
  return Object.fromEntries(names.map((file, at) => [file, texts[at]!]));
}

/** Returns a gzipped tarball of the files. */
export async function archiveOf(files: Record<string, string>): Promise<Buffer> {
  const pack = tar.pack();
  for (const [name, text] of Object.entries(files)) pack.entry({ name }, text);
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack.pipe(createGzip())) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** PUTs an archive to the target of a CreateUpload. Returns its reference. */
export async function upload(
  target: Promise<{ uploadUrl: string; archiveRef: string; contentType: string }>,
  archive: Buffer,
): Promise<string> {
  const { uploadUrl, archiveRef, contentType } = await target;
  const headers = { "content-type": contentType };
  const answer = await fetch(uploadUrl, { method: "PUT", headers, body: new Uint8Array(archive) });
  if (!answer.ok) throw new Error(`the upload answered ${answer.status}: ${await answer.text()}`);
  return archiveRef;
}

/** GETs a service's URL through the router, also where the machine cannot resolve `*.localhost`. */
export async function visit(url: string, at = "/"): Promise<{ status: number; text: string }> {
  const { host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: "127.0.0.1", port, path: at, headers: { host } }, async (answer) => {
      let text = "";
      for await (const part of answer) text += part;
      resolve({ status: answer.statusCode!, text });
    });
    outgoing.on("error", reject).end();
  });
}

/** Starts a deployer in this process with all that it needs, with an account in it. `engine` replaces the local one. */
export async function startDeployer(more: Record<string, string> = {}, engine?: Parameters<typeof start>[2]) {
  const platform = await startTestPlatform();
  const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
  const running = await start(readConfig({ ...platform.env, ...more }, fields), log, engine);
  return {
    ...platform,
    ...actAs(platform.port, newId("acc")),
    /** Returns the kinds of events that were published for an account. */
    async eventsOf(accountId: string): Promise<string[]> {
      const bus = connectBus(platform.nats.url, "test", log);
      const { manager } = await bus.connected;
      const filter = { subjects_filter: `berth.deployer.v1.*.${accountId}` };
      const { state } = await manager.streams.info(STREAM, filter);
      await bus.close();
      return Object.keys(state.subjects ?? {}).map((subject) => subject.split(".")[3]!);
    },
    /** The internal RPCs, called as the variables service. */
    asService: clientAs(InternalService, platform.port, { kind: "service", id: "variables" }),
    stop: async () => {
      await running.stop();
      await platform.stop();
    },
  };
}

export type TestDeployer = Awaited<ReturnType<typeof startDeployer>>;
