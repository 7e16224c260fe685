import type { Db } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/refusals.ts";
import { requireService } from "../projects/require.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { findDeployment } from "./sql.ts";

/** Returns the deployment with a version. Throws 404 with the part of the path that does not exist. */
export async function requireDeployment(db: Db, path: ServicePath & { version: number }) {
  const { id } = await requireService(db, path);
  const deployment = await findDeployment(db, id, path.version);
  if (!deployment) throw notFound("version");
  return deployment;
}
