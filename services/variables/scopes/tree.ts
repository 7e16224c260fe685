import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { isAddon, type ScopeIds } from "./scope.ts";
import * as sql from "./sql.ts";
import { bumpEnvironmentRevision } from "./totals-sql.ts";

// How the projection of the scope tree changes. Everything in a project changes under the lock on its
// row, so that a write, a late read-through and a deletion see each other; the lock comes first.

type ServiceFacts = {
  serviceName?: string | undefined;
  serviceType?: string | undefined;
  hasConfigEnv?: boolean | undefined;
  namedAt?: Timestamp | undefined;
};

/**
 * Inserts those of a project, its environment and its service that are not known, and sets the service's newest name. Never
 * revives a deleted one.
 */
export async function insertChain(tx: Tx, chain: ScopeIds & ServiceFacts): Promise<void> {
  const { accountId, projectId, environmentId, serviceId, serviceName: name, serviceType: type } = chain;
  // A deployer of the previous version does not set it.
  const mayHaveConfigEnv = chain.hasConfigEnv ?? true;
  await sql.insertScope(tx, { accountId, projectId });
  if (!(await sql.lockProject(tx, projectId)) || environmentId === undefined) return;
  await sql.insertScope(tx, { accountId, projectId, environmentId });
  if (!(await sql.isAlive(tx, environmentId))) return;
  if (serviceId === undefined || name === undefined || type === undefined) return;
  const ids = { accountId, projectId, environmentId, serviceId };
  const inserted = await sql.insertScope(tx, ids, { type, mayHaveConfigEnv });
  const namedAt = chain.namedAt && timestampDate(chain.namedAt);
  const named = await sql.nameService(tx, { serviceId, environmentId, name, namedAt });
  if (!inserted && !named) return;
  const revision = await bumpEnvironmentRevision(tx, environmentId, serviceId);
  // What was connected to the name of an addon leads elsewhere now.
  if (!inserted && isAddon(type) && revision !== undefined)
    await emitEnvironmentChanged(tx, accountId, environmentId, revision);
}

/** Deletes the innermost scope of `ids` and everything below it, variables and addon keys too, for good. */
export async function deleteScope(tx: Tx, ids: ScopeIds): Promise<void> {
  const { accountId, projectId, environmentId, serviceId } = ids;
  // The lock needs a row, also for a project that was never known: a read-through and a write that are under
  // way would not wait for it otherwise.
  await sql.insertScope(tx, { accountId, projectId });
  await sql.lockProject(tx, projectId);
  await sql.insertDeleted(tx, { accountId, projectId, environmentId, serviceId });
  const addonKeys = await sql.softDeleteTrees(tx, [serviceId ?? environmentId ?? projectId]);
  if (serviceId === undefined || environmentId === undefined) return;
  const revision = await bumpEnvironmentRevision(tx, environmentId);
  if (revision !== undefined && addonKeys > 0)
    await emitEnvironmentChanged(tx, accountId, environmentId, revision);
}

/** Deletes all projects of an account as `deleteScope` does, in as many statements as for one. */
export async function deleteProjects(tx: Tx, accountId: string): Promise<void> {
  await sql.softDeleteTrees(tx, await sql.lockProjects(tx, accountId));
}

/** Emits that the connections of an environment may resolve differently. */
export async function emitEnvironmentChanged(tx: Tx, accountId: string, scopeId: string, revision: number) {
  await emit(tx, VariablesChangedSchema, accountId, {
    accountId,
    scope: "environment",
    scopeId,
    names: [],
    revision: BigInt(revision),
  });
}
