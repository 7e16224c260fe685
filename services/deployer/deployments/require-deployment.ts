import type { Db } from "../../kit/postgres/db.ts";
import { notFound, refuse } from "../../kit/rpc/refusals.ts";
import { requireService } from "../projects/require.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { findDeployment, hasReleaseCommand } from "./sql.ts";

/** Returns the deployment with a version. Throws 404 with the part of the path that does not exist. */
export async function requireDeployment(db: Db, path: ServicePath & { version: number }) {
  const { id } = await requireService(db, path);
  const deployment = await findDeployment(db, id, path.version);
  if (!deployment) throw notFound("version");
  return deployment;
}

/** Returns the deployment with a version, which was built. Throws 404; with `builtVersion` where another was. */
export async function requireBuild(db: Db, path: ServicePath & { version: number }) {
  const deployment = await requireDeployment(db, path);
  const { version, buildId, builtVersion } = deployment;
  if (buildId || (await hasReleaseCommand(db, deployment.id))) return deployment;
  if (!builtVersion) throw notFound("build: the version was deployed without one");
  const message = `There is no build of version ${version}: it runs what version ${builtVersion} built, which has the log.`;
  throw refuse(404, "not_found", message, { context: { builtVersion } });
}
