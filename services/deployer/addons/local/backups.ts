import { Readable } from "node:stream";
import type { Logger } from "../../../kit/log.ts";
import type { ObjectStore } from "../../store/port.ts";
import { BackupRefusal } from "../../terms/backup-refusal.ts";
import type { AddonBackups } from "../port.ts";
import { createPostgresBackups } from "./postgres/backups.ts";
import type { createPostgresPrograms } from "./postgres/programs.ts";
import type { RedisProgram } from "./redis/program.ts";
import type { RedisProofs } from "./redis/proofs.ts";
import type { RedisServers } from "./redis/servers.ts";

export type LocalBackupDeps = {
  adminUrl: string;
  postgresPrograms: ReturnType<typeof createPostgresPrograms>;
  redis: RedisServers;
  redisProgram: RedisProgram;
  redisProofs: RedisProofs;
  store: ObjectStore;
  log: Logger;
};

const NO_ARCHIVE =
  "On one machine, addons have backups, and no archive from which a moment can be restored: restore a backup.";

/** Backups of addons on one machine: dumps of PostgreSQL, RDB files of redis. */
export function createLocalBackups(deps: LocalBackupDeps): AddonBackups {
  const { adminUrl, postgresPrograms, redis, redisProgram, redisProofs, store, log } = deps;
  const postgres = createPostgresBackups({ adminUrl, programs: postgresPrograms, store, log });

  async function requireRedis(): Promise<string> {
    const found = await redisProgram.find(noMatter);
    if ("program" in found) return found.program;
    throw new BackupRefusal("missing" in found ? found.missing : found.fetching);
  }

  return {
    noArchive: () => NO_ARCHIVE,
    pointInTime: async () => ({ reason: NO_ARCHIVE }),
    unsupported: async (type) => (type === "redis" ? undefined : postgres.unsupported()),
    async make({ serviceId, type }, _password, key, signal) {
      if (type === "postgres") return postgres.make(serviceId, key, signal);
      const { version, content } = await redis.snapshot(serviceId, signal);
      await store.put(key, Readable.from(content), "application/octet-stream");
      return { version };
    },
    async restore({ serviceId, type, size, port }, password, backup, signal) {
      if (type === "postgres") return postgres.restore(serviceId, backup, signal);
      const program = await requireRedis();
      await redis.restore(serviceId, program, { password, size, port }, await store.get(backup.key));
    },
    async prove({ serviceId, type }, key, signal) {
      if (type === "postgres") return postgres.prove(serviceId, key, signal);
      const program = await requireRedis();
      return redisProofs.prove(serviceId, program, await store.get(key), signal);
    },
    removeProof: ({ serviceId, type }) =>
      type === "postgres" ? postgres.removeProof(serviceId) : redisProofs.remove(serviceId),
  };
}

/** A program that is being fetched has been there: whoever waits for it tries again. */
function noMatter(): void {}
