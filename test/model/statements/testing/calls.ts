import * as retention from "../../../../services/deployer/deployments/retention-sql.ts";
import * as deployments from "../../../../services/deployer/deployments/sql.ts";
import * as transitions from "../../../../services/deployer/deployments/transitions-sql.ts";
import * as work from "../../../../services/deployer/due/sql.ts";
import * as images from "../../../../services/deployer/images/sql.ts";
import * as deletion from "../../../../services/deployer/projects/deletion-sql.ts";
import * as services from "../../../../services/deployer/projects/services-sql.ts";
import { renameProject } from "../../../../services/deployer/projects/sql.ts";
import { readDesired } from "../../../../services/deployer/reconcile/desired-sql.ts";
import * as resync from "../../../../services/deployer/reconcile/resync-sql.ts";
import { markDirty, moveAddresses } from "../../../../services/deployer/releases/dirty-sql.ts";
import * as releases from "../../../../services/deployer/releases/sql.ts";
import type { Db } from "../../../../services/kit/postgres/db.ts";
import type { Choices } from "../../choices.ts";
import { entitlementsOf } from "../../entitlements.ts";

// Random calls of the deployer's statements.

export const START = 1_800_000_000_000;
export const SCOPE = { accountId: "acc", projectId: "prj", environmentId: "env" };
const BY = { kind: "user", id: "usr_1", tokenId: "tok_1" };
export const CONFIG = { port: 8080, replicas: 1, size: "nano" as const, env: {}, autoApply: true };

/** The arguments of a call: the same on both sides. */
export type Facts = {
  choices: Choices;
  service: string;
  owner: number;
  /** Deployments that were inserted, of any service. */
  ids: string[];
  version: number;
  id: string;
  now: number;
};
export type Call = (db: Db, facts: Facts) => Promise<unknown>;

const accept: Call = async (db, { service: serviceId, id, choices, ids }) => {
  await deployments.supersede(db, serviceId);
  const built = choices.chance(0.5);
  const image = `image-${choices.below(2)}`;
  const run = built ? { buildId: `bld_${id}`, archiveRef: "arc" } : { image, artifact: `image:${image}` };
  const given = { id, serviceId, config: CONFIG, source: {}, warnings: [], createdBy: BY, ...run };
  const made = await deployments.insertDeployment(db, given).catch(() => undefined);
  if (made === undefined) return undefined;
  ids.push(id);
  const { version, status } = made;
  return { version, status };
};

const restore: Call = async (db, { service, id, version, ids }) => {
  const find = (one: number) => retention.findRetainedVersion(db, service, one);
  const from = (await find(version)) ?? (await find(1));
  if (!from) return from;
  await deployments.supersede(db, service);
  const own = { id, serviceId: service, from: from.deploymentId, warnings: [], createdBy: BY };
  await retention.insertRestored(db, own);
  ids.push(id);
  return from;
};

/** Returns an image for every second deployment; there are few images. */
const artifactOf = (id: string) =>
  id.length % 2 === 0
    ? `directory:bld_${id}`
    : `image:registry.test/apps@sha256:${id.slice(-1).padStart(64, "0")}`;
const held = ({ choices, version }: Facts) =>
  ["svc_0", "svc_1", "svc_gone"].slice(choices.below(3)).map((serviceId) => ({
    serviceId,
    version,
    revision: choices.below(3),
    state: choices.of(["running", "starting"]),
    ...(choices.chance(0.5) && { serving: { version } }),
    ...(choices.chance(0.1) && { drifted: true }),
  }));
const notice = (code: string) => ({ message: code, at: new Date(START).toISOString(), stage: code, code });
const since = ({ choices, now }: Facts) =>
  choices.of([undefined, new Date(now).toISOString(), new Date(now - 1_000).toISOString()]);
const wait = ({ choices }: Facts) => choices.of([undefined, 0, 250, 60_000]);
const lastDeployment = ({ ids }: Facts) => ids.at(-1) ?? "";
const anyDeployment = ({ choices, ids }: Facts) => (ids.length > 0 ? choices.of(ids) : "dep_none");

/** Drawn from evenly: calls that others depend on are listed more than once. */
export const CALLS: Call[] = [
  accept,
  accept,
  accept,
  restore,
  (db, { service }) => work.enqueue(db, [service]),
  (db, { service }) => work.enqueue(db, [service]),
  (db, { owner, service, choices }) => work.claim(db, owner, choices.chance(0.3) ? [service] : [], 50),
  (db, { owner }) => work.claim(db, owner, [], 50),
  (db, { owner }) => work.claim(db, owner, [], 50),
  (db, { owner, service }) => work.resume(db, owner, service),
  (db, facts) => work.release(db, facts.owner, facts.service, wait(facts)),
  (db, facts) => work.keepLease(db, facts.owner, facts.service, wait(facts)),
  (db, { owner, service }) => work.renew(db, owner, [service]),
  (db, { owner }) => work.releaseAll(db, owner),
  (db) => work.msUntilDue(db),
  (db, facts) => resync.enqueueDrifted(db, held(facts), facts.choices.of([[], [SCOPE.environmentId]])),
  (db) => resync.enqueueUnfinished(db),
  (db, facts) =>
    resync.listStrays(
      db,
      held(facts).map(({ serviceId }) => serviceId),
    ),
  (db, { service }) => readDesired(db, service),
  (db, { service }) => readDesired(db, service),
  (db, facts) => releases.findRelease(db, anyDeployment(facts)),
  (db, { service }) => releases.findLiveRelease(db, service),
  (db, { owner, service }) => releases.lockWhileLeased(db, owner, service),
  (db, { owner, service, choices }) =>
    releases.assignRevision(db, owner, service, choices.of(["one", "two"])),
  (db, facts) => {
    const { service: serviceId, version, choices } = facts;
    const release = { serviceId, version, revision: choices.below(3), dirtyAt: since(facts) };
    return releases.recordRelease(db, release, Buffer.from("digests"));
  },
  (db, { service, version, choices }) =>
    releases.keepUnknown(db, service, { version, revision: choices.below(3) }),
  (db, facts) => releases.recordComparison(db, facts.service, facts.choices.chance(0.5), since(facts)),
  (db, { owner, service, version, choices }) => {
    const state = choices.of(["running", "degraded"] as const);
    const status = { serviceId: service, version, revision: 1, state, restarts: 0 };
    return releases.recordStatus(db, owner, { ...status, serving: { version, revision: 1 } });
  },
  (db, { service }) => releases.recordUnappliable(db, service, "It cannot run."),
  (db, { service, choices }) =>
    releases.recordDangling(db, service, choices.of([[], ["ONE"], ["ONE", "TWO"]])),
  (db) => transitions.lockAdmission(db),
  (db, { choices }) =>
    transitions.admitBuilds(db, choices.below(4), JSON.stringify({ default: choices.below(4) })),
  (db) => transitions.admitBuilds(db, 100, JSON.stringify({ default: 100 })),
  (db, facts) => transitions.isBuilding(db, facts.owner, anyDeployment(facts)),
  (db, facts) => transitions.isBuilding(db, facts.owner, lastDeployment(facts)),
  (db, facts) => transitions.setBuildStage(db, anyDeployment(facts), "Building image"),
  (db, facts) => transitions.setCommit(db, anyDeployment(facts), "c0ffee"),
  (db, facts) => {
    const deploymentId = lastDeployment(facts);
    const image = facts.choices.of([undefined, "image-0"]);
    return transitions.finishBuild(db, facts.owner, {
      deploymentId,
      artifact: artifactOf(deploymentId),
      image,
    });
  },
  (db, facts) => transitions.markFailed(db, anyDeployment(facts), notice("broke")),
  (db, facts) => transitions.beginApply(db, anyDeployment(facts)),
  (db, facts) => transitions.markApplied(db, anyDeployment(facts)),
  (db, facts) => transitions.markApplied(db, lastDeployment(facts)),
  (db, { service, version, now }) =>
    transitions.markHealthy(db, service, version, new Date(now).toISOString()),
  (db, facts) => transitions.setWarnings(db, anyDeployment(facts), "resolve", [notice("resolve")]),
  (db, { service, version }) => transitions.addWarning(db, service, version, notice("slow")),
  (db, facts) =>
    images.artifactInUse(
      db,
      facts.service,
      artifactOf(anyDeployment(facts)),
      facts.choices.of([undefined, anyDeployment(facts)]),
    ),
  (db, facts) => images.lockBuiltImage(db, facts.service, artifactOf(anyDeployment(facts))),
  (db, facts) => images.deleteBuiltImage(db, facts.service, artifactOf(anyDeployment(facts))),
  (db, facts) => images.holdBuiltImage(db, "acc", artifactOf(anyDeployment(facts)).split("@")[1] ?? ""),
  (db, facts) => transitions.markDiscarded(db, anyDeployment(facts)),
  (db, { service, version }) => retention.findRetainedVersion(db, service, version),
  (db, { service }) => retention.expireArtifacts(db, entitlementsOf, service),
  (db, { service }) => services.lockService(db, { ...SCOPE, service: service.replace("svc_", "web") }),
  (db, { service, choices }) =>
    services.updateService(db, service, {}, { ...CONFIG, replicas: choices.below(3) }),
  (db, { service, choices }) =>
    services.rescale(db, service, {
      ...{ ...CONFIG, replicas: choices.below(3) },
      autoscaling: choices.of([undefined, { min: 1, max: 3, targetCpuPercent: 70 }]),
    }),
  (db, { service }) => services.rollLive(db, service),
  (db, { service }) => markDirty(db, "service", service),
  (db) => moveAddresses(db, "project", SCOPE.projectId),
  async (db, { choices }) => {
    const renamed = await renameProject(db, SCOPE.accountId, SCOPE.projectId, choices.of(["shop", "market"]));
    return renamed && { name: renamed.name, formerName: renamed.formerName };
  },
  (db, { service }) => deletion.listBuildOutputs(db, service),
  (db, { service }) => deletion.lockDeployments(db, service),
  (db, facts) => transitions.markLeftover(db, anyDeployment(facts)),
  (db) => deletion.listDeletedEnvironments(db, ["env", "env_gone"]),
  (db) => deletion.pruneProjects(db, ["prj"]),
  (db, { choices }) =>
    deletion.pruneEnvironment(db, { environmentId: choices.of(["env", "env_gone"]), projectId: "prj" }),
  (db, { service }) => deletion.markServices(db, "id", [service]),
  (db, { service }) => deletion.removeService(db, service),
];
