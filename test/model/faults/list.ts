import type { Fence } from "../statements/fences.ts";
import type { Edit } from "./seed.ts";

export type Fault = {
  /** What is wrong. */
  name: string;
  /** Checks of statements that are left out. */
  fences?: readonly Fence[];
  /** Changes of the deployer's code. */
  edits?: readonly Edit[];
  /** Found in one of thousands of schedules. */
  rare?: true;
  /** Why nothing goes wrong. */
  harmless?: string;
};

const PLAN = "reconcile/plan.ts";
const APPLY = "releases/apply/apply-release.ts";
const DECISION = "releases/apply/apply-decision.ts";

const ROW_THEN_VARIABLES = `  if (!row) return false;
  const variables = await deps.resolve(serviceId);
  const comparison`;

const requiresRevisionOfRow: Edit = {
  file: APPLY,
  from: "if (revision !== undefined && revision !== row.revision + 1) throw newerRevision();",
  to: "",
};
const requiresRevision: Edit = {
  file: DECISION,
  from: `if (service.revision !== release.revision) return "retry";`,
  to: "",
};
const requiresLiveVersion: Edit = {
  file: DECISION,
  from: `if (service.liveVersion !== release.version) return "skip";`,
  to: "",
};

/** Faults of deployments and of what is applied again: the model finds each of them, unless it says why it is harmless. */
export const FAULTS: readonly Fault[] = [
  { name: "an ended deployment can fail", fences: ["fails what has ended"] },
  {
    name: "what was superseded can still be applied",
    fences: ["applies what has ended", "applies any version"],
  },
  {
    name: "a statement has no mirror",
    edits: [
      {
        file: "deployments/transitions-sql.ts",
        from: `"deployment_is_building"`,
        to: `"deployment_is_building_anew"`,
      },
    ],
  },
  { name: "accepting supersedes nothing", fences: ["supersedes nothing"] },
  { name: "the leases of killed processes stay", fences: ["keeps the dead"] },
  { name: "a lease that a living process holds is taken", fences: ["claims what is leased"] },
  { name: "other variables get the same revision", fences: ["reuses revisions"] },
  { name: "marks of changes that came later are cleared", rare: true, fences: ["forgets changes"] },
  { name: "a new name of the project leaves the revision", fences: ["moves in silence"] },

  {
    name: "variables are read before the row that they are compared for",
    rare: true,
    edits: [
      {
        file: APPLY,
        from: `const row = await sql.findLiveRelease(deps.pool, serviceId);\n${ROW_THEN_VARIABLES}`,
        to: `const variables = await deps.resolve(serviceId);
          const row = await sql.findLiveRelease(deps.pool, serviceId);
          if (!row) return false;
          const comparison`,
      },
    ],
  },
  {
    name: "variables are read before the row that is applied again",
    rare: true,
    edits: [
      {
        file: APPLY,
        from: `const row = await sql.findLiveRelease(deps.pool, serviceId);
  return row ? apply(deps, "reapply", row, await deps.resolve(serviceId)) : false;`,
        to: `const variables = await deps.resolve(serviceId);
          const row = await sql.findLiveRelease(deps.pool, serviceId);
          return row ? apply(deps, "reapply", row, variables) : false;`,
      },
    ],
  },
  {
    name: "variables are read before the row of a deployment",
    rare: true,
    edits: [
      {
        file: APPLY,
        from: "const row = await sql.findRelease(pool, deploymentId);",
        to: `const before = await deps.resolve(serviceId);
          const row = await sql.findRelease(pool, deploymentId);`,
      },
      { file: APPLY, from: "early ?? resolveOrWarn(deps, serviceId, deploymentId),", to: "before," },
    ],
  },
  {
    name: "variables that were asked for early are taken although they changed",
    rare: true,
    edits: [
      {
        file: "variables/early-variables.ts",
        from: "if (revision !== row.revision || dirtyAt !== row.dirtyAt) return undefined;",
        to: "",
      },
    ],
  },
  {
    name: "a deployment that has ended meanwhile is applied",
    edits: [
      {
        file: APPLY,
        from: `if (decision === "mark-applied" && !(await markApplied(tx, deploymentId))) return false;`,
        to: `if (decision === "mark-applied") await markApplied(tx, deploymentId);`,
      },
    ],
  },
  {
    name: "a row with the former address gets the newest revision",
    rare: true,
    edits: [requiresRevisionOfRow],
  },
  {
    name: "what runs under another revision is not different",
    edits: [{ file: DECISION, from: " || row.revision !== row.appliedRevision;", to: ";" }],
  },
  {
    name: "what changed and is not applied is not pending",
    edits: [
      {
        file: APPLY,
        from: `sql.recordComparison(tx, serviceId, comparison === "pending", row.dirtyAt);`,
        to: "sql.recordComparison(tx, serviceId, false, row.dirtyAt);",
      },
    ],
  },
  {
    name: "what variables hide in config.env is not part of their fingerprint",
    rare: true,
    edits: [
      {
        file: "releases/apply/to-release.ts",
        from: `return [variables.fingerprint, ...hiddenNames(row, variables)].join(" ");`,
        to: "return variables.fingerprint;",
      },
    ],
  },
  {
    name: "services that move are not marked",
    edits: [{ file: "releases/dirty-sql.ts", from: "await markDirty(db, scope, scopeId);", to: "" }],
  },
  {
    name: "an older version that runs is left",
    edits: [{ file: PLAN, from: "runtime.version < live.version || ", to: "" }],
  },
  {
    name: "a newer version that runs is taken for an older one",
    edits: [
      { file: PLAN, from: "runtime.version < live.version ||", to: "runtime.version > live.version ||" },
    ],
  },
  {
    name: "an older revision that runs is left",
    edits: [{ file: PLAN, from: "runtime.revision < live.revision || ", to: "" }],
  },
  {
    name: "a newer revision that runs is taken for an older one",
    edits: [
      { file: PLAN, from: "runtime.revision < live.revision ||", to: "runtime.revision > live.revision ||" },
    ],
  },
  {
    name: "a newer revision that runs and is not recorded is left",
    rare: true,
    edits: [
      {
        file: PLAN,
        from: "current && runtime.revision > live.revision)",
        to: "current && runtime.revision < 0)",
      },
    ],
  },
  {
    name: "what somebody changed is left",
    edits: [{ file: PLAN, from: " || runtime.drifted)", to: ")" }],
  },
  {
    name: "a stray release is left where nothing is live",
    edits: [{ file: PLAN, from: `runtime && !active ? [{ do: "remove-stray" }] : []`, to: "[]" }],
  },
  {
    name: "a stray release is left beside the live one",
    edits: [
      {
        file: PLAN,
        from: `active ? [] : [{ do: "remove-stray" }, { do: "reapply-live" }]`,
        to: "[]",
      },
    ],
  },
  {
    name: "the live release is applied over a stray one",
    edits: [
      {
        file: PLAN,
        from: `active ? [] : [{ do: "remove-stray" }, { do: "reapply-live" }]`,
        to: `active ? [] : [{ do: "reapply-live" }]`,
      },
    ],
  },
  {
    name: "a restart that is recorded and did not happen is left",
    edits: [
      {
        file: PLAN,
        from: "(runtime.rolls ?? 0) < (live.rolls ?? 0)",
        to: "(runtime.rolls ?? 0) > (live.rolls ?? 0)",
      },
    ],
  },

  {
    name: "a release is applied for a revision that is not the newest",
    rare: true,
    edits: [requiresRevision, requiresRevisionOfRow],
  },
  {
    name: "a release that is no longer live is applied again",
    edits: [requiresLiveVersion],
    harmless: "the runtime refuses a version before the one that it runs",
  },
  {
    name: "a release is applied without the lease",
    fences: ["applies without the lease"],
    harmless:
      "under the row's lock the revision is compared, without which the next fault is found, and the runtime refuses a former version: a lease that was lost costs work done twice",
  },
  {
    name: "releases are applied without the lease, the newest revision and the live version",
    rare: true,
    fences: ["applies without the lease"],
    edits: [requiresRevision, requiresRevisionOfRow, requiresLiveVersion],
  },
  {
    name: "what is not read counts as gone",
    edits: [
      {
        file: PLAN,
        from: "if (observed.unread) return { actions: [], wakeAt: now + UNREAD_MS };",
        to: "",
      },
    ],
  },
];
