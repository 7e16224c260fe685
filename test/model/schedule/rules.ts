import { BUILDS_AT_ONCE, RETAINED } from "../entitlements.ts";
import type { Row, Session } from "../world/database.ts";
import type { Engine } from "../world/engine.ts";
import type { Run } from "../world/runtime.ts";
import type { World } from "../world/world.ts";

const ENDED = ["applied", "failed", "superseded"];
const NEXT: Record<string, string[]> = {
  queued: ["building", "applied", "failed", "superseded"],
  building: ["built", "failed", "superseded"],
  built: ["applied", "failed", "superseded"],
};
const END_EVENTS: Record<string, string> = {
  applied: "DeploymentApplied",
  failed: "DeploymentFailed",
  superseded: "DeploymentSuperseded",
};
/** Failures that the simulated builder, runtime and users cause; time alone causes the others. */
const FAILURES = ["compile_failed", "cluster_refused", "canceled"];
const DEADLINES: Record<string, number> = {
  build_timeout: 15 * 60_000,
  apply_deadline_exceeded: 5 * 60_000,
  queue_deadline_exceeded: 30 * 60_000,
};

/** The rules: some hold at every commit, the others once all has come to rest. */
export class Rules {
  readonly #violate: (rule: string, detail: string) => void;
  readonly #events = new Map<string, string[]>();

  constructor(violate: (rule: string, detail: string) => void) {
    this.#violate = violate;
  }

  /** Checks what holds at every commit (docs/deployments.md#states). */
  checkCommit(session: Session): void {
    const { committed } = session.db;
    const deployments = session.written.get("deployments");
    for (const [id, after] of deployments ?? []) {
      const before = committed.deployments.get(id);
      if (!after) continue;
      const what = `${after.service_id} version ${after.version}`;
      if (before && before.status !== after.status) {
        if (ENDED.includes(before.status))
          this.#violate("an ended deployment stays", `${what} was ${before.status} and is ${after.status}`);
        else if (!NEXT[before.status]!.includes(after.status))
          this.#violate("states follow each other", `${what} went from ${before.status} to ${after.status}`);
        if (after.status === "applied" && this.#newest(session, after.service_id) !== after.version)
          this.#violate("only the highest version applies", `${what} applied`);
      }
      if (before?.healthy_at && before.healthy_at !== after.healthy_at)
        this.#violate("healthyAt stays", what);
    }
    for (const serviceId of new Set([...(deployments?.values() ?? [])].map((d) => d?.service_id))) {
      const active = this.#of(session, serviceId).filter((d) => !ENDED.includes(d.status));
      if (active.length > 1) this.#violate("one deployment at a time", `${serviceId} has ${active.length}`);
    }
    const building = this.#all(session).filter((d) => d.status === "building").length;
    if (building > BUILDS_AT_ONCE)
      this.#violate("slots are shared", `${building} deployments are being built`);
    for (const [id, after] of session.written.get("services") ?? []) {
      const before = committed.services.get(id);
      for (const column of ["live_version", "variables_revision", "next_version"])
        if (before && after && after[column] < before[column])
          this.#violate("what grows never shrinks", `${column} of ${id} fell to ${after[column]}`);
    }
    for (const { kind, deploymentId } of session.events) {
      if (!deploymentId) continue;
      const events = this.#events.get(deploymentId);
      if (events) events.push(kind);
      else this.#events.set(deploymentId, [kind]);
    }
  }

  #of(session: Session, serviceId: string): Row[] {
    return this.#all(session).filter((d) => d.service_id === serviceId);
  }

  #all(session: Session): Row[] {
    const written = session.written.get("deployments");
    const rows = [...session.db.committed.deployments.values()].filter((d) => !written?.has(d.id));
    for (const row of written?.values() ?? []) if (row) rows.push(row);
    return rows;
  }

  #newest(session: Session, serviceId: string): number {
    return Math.max(...this.#of(session, serviceId).map((d) => d.version));
  }

  /** Returns why a schedule has not come to rest; undefined when it has. */
  findUnrest({ db, clock, processes }: World, engine: Engine): string | undefined {
    if (processes.some(({ builds }) => builds > 0)) return "a build is under way";
    const { services, work, deployments } = db.committed;
    for (const w of work.values()) {
      if (w.lease_owner !== null) return `${w.id} is leased`;
      if (w.next_at !== null && w.next_at < clock.now + 3_600_000) return `${w.id} is due`;
    }
    for (const d of deployments.values()) {
      if (!ENDED.includes(d.status)) return `version ${d.version} of ${d.service_id} is ${d.status}`;
      if (d.leftover) return `version ${d.version} of ${d.service_id} has leftovers`;
    }
    for (const id of engine.runtime.runs.keys()) if (!services.has(id)) return `${id} is deleted and runs`;
    for (const s of services.values()) {
      const own = [...deployments.values()].filter((d) => d.service_id === s.id && d.status === "applied");
      const reason = whyUnsettled({
        ...{ s, own, variables: engine.variables, run: engine.runtime.runs.get(s.id) },
        project: db.committed.projects.get(s.project_id)!.name,
      });
      if (reason) return `${s.id}: ${reason}`;
    }
    return undefined;
  }

  /** Checks what holds once all has come to rest. */
  checkAtRest({ db, clock }: World, engine: Engine): void {
    const { services, deployments } = db.committed;
    for (const s of services.values()) {
      const own = [...deployments.values()].filter((d) => d.service_id === s.id);
      const versions = own.map((d) => d.version).sort((one, other) => one - other);
      if (versions.length !== s.next_version - 1 || versions.some((version, index) => version !== index + 1))
        this.#violate("versions have no gap", `${s.id} has ${versions}, the next is ${s.next_version}`);
      for (const d of own) this.#checkEnd(d, clock.now);
    }
    const applied = [...deployments.values()].filter((d) => d.status === "applied").map((d) => d.artifact);
    for (const artifact of engine.artifacts)
      if (!applied.includes(artifact)) this.#violate("nothing is left over", `the artifact ${artifact}`);
    if (!engine.resumes)
      for (const buildId of engine.jobs.keys()) this.#violate("nothing is left over", `the build ${buildId}`);
    for (const s of services.values()) this.#checkRetention(s, [...deployments.values()], engine.artifacts);
  }

  #checkEnd(d: Row, now: number): void {
    const what = `version ${d.version} of ${d.service_id}, which ${d.status}`;
    const events = this.#events.get(d.id) ?? [];
    const ends = events.filter((kind) => Object.values(END_EVENTS).includes(kind));
    if (ends.length !== 1 || ends[0] !== END_EVENTS[d.status])
      this.#violate("each end has one event", `${what}, has ${ends.join(", ") || "none"}`);
    for (const kind of ["DeploymentQueued", "DeploymentBuilding", "DeploymentBuilt"])
      if (events.filter((one) => one === kind).length > 1)
        this.#violate("each move has one event", `${kind} of ${what}`);
    if (d.errors.length !== (d.status === "failed" ? 1 : 0))
      this.#violate("one failure, one error", `${what} has ${JSON.stringify(d.errors)}`);
    const code = d.errors[0]?.code;
    if (!code || FAILURES.includes(code)) return;
    if (!(now - d.created_at >= DEADLINES[code]!))
      this.#violate("no failure without a cause", `${what}: ${code}`);
  }

  #checkRetention(s: Row, deployments: Row[], artifacts: ReadonlySet<string>): void {
    const applied = deployments.filter((d) => d.service_id === s.id && d.status === "applied");
    const live = applied.find((d) => d.version === s.live_version);
    const retained = applied
      .filter((d) => d.healthy_at !== null)
      .sort((one, other) => other.version - one.version)
      .slice(0, RETAINED);
    const wanted = new Set([...retained, ...(live ? [live] : [])].map((d) => d.artifact));
    for (const artifact of wanted)
      if (!artifact || (/^(directory:|image:registry.test)/.test(artifact) && !artifacts.has(artifact)))
        this.#violate("what is retained exists", `${artifact} of ${s.id}`);
    if (!live?.healthy_at || s.serving_version !== s.live_version) return;
    for (const d of applied)
      if (d.artifact && artifacts.has(d.artifact) && !wanted.has(d.artifact))
        this.#violate("nothing is left over", `${d.artifact} of version ${d.version} is not retained`);
  }
}

/** Returns how a service differs from what it should be, with its deployments that applied; undefined when it does not. */
function whyUnsettled({ s, own, run, variables, project }: Settling): string | undefined {
  if (s.deleting_at !== null) return "it is not removed";
  if (s.live_version === null) return run && "nothing is live and something runs";
  const newest = Math.max(...own.map((d) => d.version));
  if (s.live_version !== newest) return `version ${s.live_version} is live, not ${newest}, which applied`;
  if (!run) return "its release does not run";
  const live = own.find((d) => d.version === newest)!;
  const pairs: [string, unknown, unknown][] = [
    ["version", run.version, s.live_version],
    ["revision", run.revision, s.applied_revision],
    ["artifact", run.artifact, live.artifact],
    ["number of replicas", run.replicas, live.config.replicas],
    ["number of rolls", run.rolls, s.rolls],
    ["recorded state", s.runtime_state, run.state],
    ["recorded message", s.runtime_message, run.message ?? null],
    ["recorded version that serves", s.serving_version, run.serving?.version ?? null],
    ["recorded health", live.healthy_at !== null || run.healthyAt === undefined, true],
    ["mark of changed variables", s.dirty_at, null],
    ["list of variables that dangle", String(s.dangling), String(variables.dangling(s.id))],
  ];
  const current: typeof pairs = [
    ["value of the variable", run.value, variables.expected(s.id, live.config)],
    ["name of the project", run.project, project],
  ];
  // Otherwise the service shows that the next deployment brings them.
  if (!s.pending_variables) pairs.push(...current);
  else if (s.config.autoApply) return "changed variables are left to the next deployment";
  const differs = pairs.find(([, one, other]) => one !== other);
  return differs && `the ${differs[0]} is ${differs[1]}, not ${differs[2]}`;
}

type Settling = { s: Row; own: Row[]; run: Run | undefined; variables: Engine["variables"]; project: string };
