import { randomInt } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { buildConsole } from "../../../deploy/local/console.ts";
import { findNatsServer } from "../../../deploy/local/nats/install.ts";
import { startNats } from "../../../deploy/local/nats/nats.ts";
import { startPostgres } from "../../../deploy/local/postgres/postgres.ts";
import { isAlive } from "../../../deploy/local/processes/process-table.ts";
import {
  createPostgresPrograms,
  FETCHED_MAJOR,
} from "../../../services/deployer/addons/local/postgres/programs.ts";
import { fetchRedisServer, findRedisServer } from "../../../services/deployer/addons/local/redis/program.ts";
import { createLog } from "../../../services/kit/log.ts";
import { programsDir } from "../../../services/kit/process/program.ts";
import { createTemplateDatabase } from "./template-database.ts";

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface ProvidedContext {
    /** The superuser's URL of the database `postgres` in the run's PostgreSQL. */
    postgresAdminUrl: string;
    /** A database of it that has every service's schema, migrated, for copies. */
    templateDatabase: string;
    /** URL, with credentials, of the run's NATS with JetStream. */
    natsUrl: string;
    /** A redis-server or valkey-server, if one was found or could be fetched. */
    redisProgram?: string;
    /** Whether there are a pg_dump and a pg_restore that fit the run's PostgreSQL, or they could be fetched. */
    hasDumps: boolean;
    /** The seed of random tests: a new one for each run, or TEST_SEED. */
    seed: number;
    /** Whether samples of what is long by nature are tested (kit/testing/sample.ts), which the file `samples` then lists. */
    isSample: boolean;
    samples: string;
    /** How long a test waits for what must happen; 60 s by default. */
    patienceMs?: number;
  }
}

/**
 * Starts one PostgreSQL and one NATS for the whole test run, or uses those of BERTH_TEST_POSTGRES_URL and
 * BERTH_TEST_NATS_URL. Each test creates its own database, often as a copy of a template, and its own streams in them.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "../../../.cache/compile");
  const reportSamples = provideSamples(project);
  const [stop] = await Promise.all([startServers(project), buildConsole((line) => console.log(line))]);
  return () => stop().then(reportSamples);
}

/** Says after the tests which of them were samples. */
function provideSamples(project: TestProject): () => void {
  const isSample = process.env.TEST_SAMPLE === "1";
  const samples = join(tmpdir(), `${prefix}${process.pid}-samples`);
  project.provide("isSample", isSample);
  project.provide("samples", samples);
  const { TEST_SAMPLED_FILES: files } = process.env;
  if (files) writeFileSync(samples, `${files}\n`);
  return () => {
    const lines = existsSync(samples) ? readFileSync(samples, "utf8").trim().split("\n") : [];
    rmSync(samples, { force: true });
    if (lines.length === 0) return;
    console.log(`Samples, of which \`npm run test:all\` tests everything: ${lines.toSorted().join("; ")}.`);
  };
}

async function startServers(project: TestProject): Promise<() => Promise<void>> {
  const seed = Number(process.env.TEST_SEED || randomInt(2 ** 31));
  console.log(`The seed of random tests is ${seed}; TEST_SEED=${seed} repeats them.`);
  project.provide("seed", seed);
  const programs = Promise.all([provideRedis(project), provideDumps(project)]);
  const postgresUrl = process.env.BERTH_TEST_POSTGRES_URL;
  const natsUrl = process.env.BERTH_TEST_NATS_URL;
  if (postgresUrl) project.provide("postgresAdminUrl", postgresUrl);
  if (natsUrl) project.provide("natsUrl", natsUrl);
  if (postgresUrl && natsUrl) {
    await programs;
    return provideTemplate(project, postgresUrl);
  }

  await removeLeftovers();
  const dir = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));
  await chmod(dir, 0o711); // PostgreSQL may run as another user, who has to traverse the folder.
  const started = await Promise.allSettled([
    postgresUrl ? undefined : startPostgres({ dir: join(dir, "postgres"), durable: false }),
    natsUrl ? undefined : startTestNats(join(dir, "nats")),
    programs.then(() => undefined),
  ]);
  const stop = async () => {
    await Promise.all(started.map((server) => server.status === "fulfilled" && server.value?.stop()));
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const failed = started.find((server) => server.status === "rejected");
    if (failed) throw failed.reason;
    const [postgres, nats] = started;
    const own = postgres.status === "fulfilled" ? postgres.value?.adminUrl : undefined;
    if (own) project.provide("postgresAdminUrl", own);
    if (nats.status === "fulfilled" && nats.value) project.provide("natsUrl", nats.value.url);
    const dropTemplate = await provideTemplate(project, own ?? postgresUrl!);
    return () => dropTemplate().then(stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function provideTemplate(project: TestProject, adminUrl: string): Promise<() => Promise<void>> {
  const { name, drop } = await createTemplateDatabase(adminUrl);
  project.provide("templateDatabase", name);
  return drop;
}

async function startTestNats(dir: string) {
  const binary = await findNatsServer(programsDir, (line) => console.log(line));
  return startNats({ binary, dir });
}

async function provideRedis(project: TestProject): Promise<void> {
  try {
    const found = await findRedisServer({ folder: programsDir, path: process.env.PATH });
    const program = found ?? (await fetchRedisServer(programsDir, (line) => console.log(line)));
    project.provide("redisProgram", program);
  } catch (error) {
    const why = (error as Error).message;
    console.warn(`Tests with a redis server are skipped: none is on the PATH or could be fetched (${why}).`);
  }
}

async function provideDumps(project: TestProject): Promise<void> {
  const log = createLog("tests", "silent");
  const programs = createPostgresPrograms({ folder: programsDir, path: () => process.env.PATH, log });
  const why = await programs.require(FETCHED_MAJOR).then(
    () => undefined,
    (error) => (error as Error).message,
  );
  project.provide("hasDumps", why === undefined);
  if (why) console.warn(`Tests of backups of postgres addons are skipped. ${why}`);
}

const prefix = "berth-test-";

/** Removes the folders of killed runs. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = Number(name.match(/^berth-test-(\d+)-/)?.[1]);
    if (pid && !isAlive(pid)) await rm(join(tmpdir(), name), { recursive: true, force: true });
  }
}
