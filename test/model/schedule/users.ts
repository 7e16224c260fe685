import { accept, type DeploymentInput } from "../../../services/deployer/deployments/accept/accept.ts";
import { findRestorable } from "../../../services/deployer/deployments/accept/rollback.ts";
import { cancelDeployment } from "../../../services/deployer/deployments/fail-deployment.ts";
import { enqueue } from "../../../services/deployer/due/sql.ts";
import { accountImages } from "../../../services/deployer/images/account-images.ts";
import { deleteServices } from "../../../services/deployer/projects/delete-services.ts";
import {
  type LockedService,
  lockService,
  rescale,
  rollLive,
  updateService,
} from "../../../services/deployer/projects/services-sql.ts";
import { renameProject } from "../../../services/deployer/projects/sql.ts";
import { markDirty, moveAddresses } from "../../../services/deployer/releases/dirty-sql.ts";
import { TIMEOUTS } from "../../../services/deployer/terms/timeouts.ts";
import { transaction } from "../../../services/kit/postgres/db.ts";
import { entitlementsOf } from "../entitlements.ts";
import { type Engine, isBuiltImage } from "../world/engine.ts";
import type { Process } from "../world/process.ts";
import type { World } from "../world/world.ts";

const by = { caller: { kind: "user" as const, id: "usr", ip: "" }, requestId: "req" };
const images = accountImages(isBuiltImage, []);
const scope = { accountId: "acc", projectId: "prj", environmentId: "env" };

/** When changed variables are being compared. */
const COMPARED_MS = TIMEOUTS.debounceMs + 2;

type Request = (world: World, engine: Engine, process: Process) => void;

/** Returns a request that a process serves as the RPCs do. It may be refused, and its answer may be lost. */
function request(
  what: string,
  work: (tx: never, service: LockedService, world: World, process: Process) => Promise<unknown>,
): Request {
  return (world, _engine, process) => {
    const name = world.db.committed.services.size > 1 ? `web${world.choices.below(2)}` : undefined;
    const service = name ?? world.db.committed.services.values().next().value?.name;
    world.note(`a user asks ${process.name} for ${what} of ${service}`);
    void transaction(process.pool, async (tx) => {
      const locked = await lockService(tx, { ...scope, service });
      if (locked && !locked.deleting) await work(tx as never, locked, world, process);
    }).catch((error: Error) => world.note(`${what} is refused: ${error.message}`));
  };
}

const deploy = (input: (world: World) => DeploymentInput) =>
  request("a deployment", (tx, service, world, { early }) => accept(tx, by, service, input(world), early));

export const deployImage = deploy((world) => {
  const image = `someone/app:${world.choices.below(2)}`;
  return { artifact: `image:${image}`, image };
});
const deployArchive = deploy(() => ({ archiveRef: "arc" }));

const rollBack = request("a rollback", async (tx, service, world, { early }) => {
  const newest = world.db.committed.services.get(service.id)!.next_version - 1;
  if (newest < 1) return;
  const version = 1 + world.choices.below(newest);
  const found = await findRestorable(tx, entitlementsOf, service, version);
  await images.require(tx, service.accountId, "version", found.image);
  await accept(tx, by, service, { restores: found }, early);
});

const scale = request("other replicas", async (tx, service, world) => {
  const config = { ...service.config, replicas: world.choices.below(4) };
  await updateService(tx, service.id, service.source, config);
  if ((await rescale(tx, service.id, config)) > 0) await enqueue(tx, [service.id]);
});

const restart = request("a restart", async (tx, service) => {
  if ((await rollLive(tx, service.id)) > 0) await enqueue(tx, [service.id]);
});

const cancelNewest = request("a cancel", async (tx, service, world) => {
  const own = [...world.db.committed.deployments.values()].filter((d) => d.service_id === service.id);
  const newest = own.find((d) => d.version === own.length);
  if (newest && (await cancelDeployment(tx, { id: newest.id, status: newest.status })))
    await enqueue(tx, [service.id]);
});

const remove = request("the end", (tx, service) =>
  deleteServices(tx, "id", [service.id], true, { accountId: "acc" }),
);

/** Sets or removes a variable in the configuration: the next deployment has it. */
const reconfigure = request("another configuration", (tx, service, world) => {
  const env: Record<string, string> = world.choices.chance(0.7) ? { V: "configured" } : {};
  return updateService(tx, service.id, service.source, { ...service.config, env });
});

/** Changes a variable, or does not, and has the event of it delivered: mostly at once. */
const changeVariables: Request = (world, { variables }, process) => {
  const { choices, clock, deliveries } = world;
  const serviceId = `svc_${choices.below(world.db.committed.services.size || 1)}`;
  const change = () => {
    variables.change(serviceId);
    deliveries.push(({ pool }) => transaction(pool, (tx) => markDirty(tx, "service", serviceId)));
    if (choices.chance(0.6)) world.deliver(process);
  };
  change();
  if (choices.chance(0.3)) clock.after(COMPARED_MS, () => world.settling || change());
};

/** Gives the project a name that it may have had before, as its RPC does. */
const rename: Request = (world, _engine, { pool }) => {
  const name = world.choices.of(["market", "shop"]);
  world.note(`a user names the project ${name}`);
  void transaction(pool, async (tx) => {
    const renamed = await renameProject(tx, "acc", "prj", name);
    if (renamed && renamed.formerName !== name) await moveAddresses(tx, "project", "prj");
  }).catch((error: Error) => world.note(`the name is refused: ${error.message}`));
};

const times = (count: number, one: Request): Request[] => Array(count).fill(one);

/** What users of a schedule ask for, drawn from evenly: all there is, mostly changes of what runs, or of its variables. */
export const requests: readonly Request[][] = [
  [
    ...[deployImage, ...times(3, deployArchive), rollBack, scale, restart, cancelNewest, reconfigure],
    ...[rename, ...times(2, changeVariables), remove],
  ],
  [
    ...[...times(2, deployImage), deployArchive, rollBack, scale, restart, ...times(3, cancelNewest)],
    ...[reconfigure, ...times(2, rename), ...times(5, changeVariables)],
  ],
  [...times(2, deployImage), rollBack, ...times(2, rename), ...times(8, changeVariables)],
];
