import type { Db } from "../../kit/postgres/db.ts";
import { notFound, refuse } from "../../kit/rpc/refusals.ts";
import { requireDeployment } from "../deployments/require-deployment.ts";
import { hasReleaseCommand } from "../deployments/sql.ts";
import type { ServicePath } from "../projects/services-sql.ts";

/** Returns the deployment with a version, which was built. Throws 404; with `builtVersion` where another was. */
export async function requireBuild(db: Db, path: ServicePath & { version: number }) {
  const deployment = await requireDeployment(db, path);
  const { version, buildId, builtVersion } = deployment;
  if (buildId || (await hasReleaseCommand(db, deployment.id))) return deployment;
  if (!builtVersion) throw notFound("build: the version was deployed without one");
  const message = `There is no build of version ${version}: it runs what version ${builtVersion} built, which has the log.`;
  throw refuse(404, "not_found", message, { context: { builtVersion } });
}
