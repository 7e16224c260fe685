import type { Deployer, Installation } from "./deployers.ts";
import { pathOf, timeUntil } from "./figures.ts";

/** What namespaces have is applied again by the clock, whether something is deployed or not. */
const OF_NAMESPACES = ["namespaces", "networkpolicies", "resourcequotas", "limitranges"];

/** Returns how many calls in the namespace of apps and in Berth's own were made meanwhile. */
export async function countCalls({ cluster }: Installation, work: () => Promise<string>): Promise<number> {
  const before = (await cluster.state()).count;
  const environment = await work();
  const namespaces = [`many-${environment.replace("_", "-")}`, "many-home"];
  const { calls } = await cluster.state(before);
  return calls.filter(
    ({ namespace = "", name = "", plural }) =>
      [namespace, name].some((one) => namespaces.includes(one)) && !OF_NAMESPACES.includes(plural),
  ).length;
}

/** Deploys a service, waits until its release is healthy and nothing is left to do, and returns its environment. */
export async function deploy({ pool }: Installation, deployer: Deployer, serviceId: string): Promise<string> {
  const path = pathOf(serviceId);
  await deployer.deploy(path, "example.test/web:3");
  await timeUntil(async () => {
    const { rowCount } = await pool.query(
      `select from deployments d join work w using (service_id) where service_id = $1 and version = 3
         and healthy_at is not null and lease_owner is null and next_at is null`,
      [serviceId],
    );
    return rowCount === 1;
  });
  return path.environmentId;
}

/** Returns how long it takes until a deployment is applied that is asked for now. */
export async function timeUntilApplied(
  { pool }: Installation,
  deployer: Deployer,
  serviceId: string,
): Promise<number> {
  const begun = performance.now();
  await deployer.deploy(pathOf(serviceId), "example.test/web:3");
  await timeUntil(async () => {
    const { rowCount } = await pool.query(
      "select from deployments where service_id = $1 and version = 3 and status = 'applied'",
      [serviceId],
    );
    return rowCount === 1;
  });
  return performance.now() - begun;
}
