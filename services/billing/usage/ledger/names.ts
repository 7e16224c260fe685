import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type { InternalService } from "../../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { coalesced } from "../../../kit/concurrency/coalesce.ts";
import { isTransient } from "../../../kit/failures.ts";
import type { Pool, Tx } from "../../../kit/postgres/db.ts";
import type { ReportedUsage } from "./record-usage.ts";
import * as sql from "./sql.ts";

const ANSWER_MS = 3_000;

export type ServiceNames = { serviceName: string; projectName: string };
export type Names = ReturnType<typeof createNames>;

/** Finds out what services and their projects are called, once: the deployer forgets what is deleted. */
export function createNames(pool: Pool, deployer: Client<typeof InternalService>) {
  const ask = coalesced(async (serviceId): Promise<ServiceNames | undefined> => {
    if (await sql.isNamed(pool, serviceId)) return undefined;
    // Usage does not wait for names: the next event of the service asks again.
    return deployer.describeService({ serviceId }, { timeoutMs: ANSWER_MS }).catch((error) => {
      if (isTransient(error) || (error instanceof ConnectError && error.code === Code.NotFound))
        return undefined;
      throw error;
    });
  });
  return {
    /** Asks the deployer for the names of a service; undefined when they are known, or cannot be found out now. */
    find: ask,
    async save(tx: Tx, event: Omit<ReportedUsage, "kind" | "at">, names: ServiceNames): Promise<void> {
      await sql.upsertService(tx, { ...event, type: event.serviceType, name: names.serviceName });
      await sql.upsertProject(tx, event.projectId, names.projectName);
    },
  };
}
