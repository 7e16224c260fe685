import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { Scope as ScopeKind } from "../resolve/resolve.ts";
import * as sql from "./sql.ts";

// How the projection of the scope tree changes. Everything in a project changes under the lock on its
// row, so that a write, a late read-through and a deletion see each other; the lock comes first.

export type Chain = {
  accountId: string;
  projectId: string;
  environmentId?: string | undefined;
  service?: { id: string; name: string; type: string } | undefined;
};

/** Adds what is not known yet of a project, an environment in it and a service in that. Never revives. */
export async function learn(tx: Tx, { accountId, projectId, environmentId, service }: Chain): Promise<void> {
  await sql.insertScope(tx, { id: projectId, accountId, parentId: null, kind: "project" });
  if (!(await sql.lockProject(tx, projectId)) || environmentId === undefined) return;
  await sql.insertScope(tx, { id: environmentId, accountId, parentId: projectId, kind: "environment" });
  if (!(await sql.isAlive(tx, environmentId)) || !service) return;
  // Ids sort by creation and a name is taken once: an older holder was deleted, and its event is under way.
  for (const id of await sql.olderNamesakes(tx, { ...service, environmentId })) await sql.buryTree(tx, id);
  const { id, name, type } = service;
  const row = { id, accountId, parentId: environmentId, kind: "service" as const, name, type };
  if (await sql.insertScope(tx, row)) await sql.touchEnvironment(tx, environmentId);
}

export type Gone = {
  accountId: string;
  projectId: string;
  id: string;
  kind: ScopeKind;
  parentId: string | null;
};

/** Deletes a scope and everything under it, variables and addon keys too; it can never come back. */
export async function forget(tx: Tx, gone: Gone): Promise<void> {
  // The lock needs a row, also for a project that nobody has met: a read-through and a write that are under
  // way would slip past otherwise.
  await sql.insertScope(tx, {
    id: gone.projectId,
    accountId: gone.accountId,
    parentId: null,
    kind: "project",
  });
  await sql.lockProject(tx, gone.projectId);
  await sql.insertTombstone(tx, gone);
  const keys = await sql.buryTree(tx, gone.id);
  if (gone.kind !== "service" || gone.parentId === null) return;
  const revision = await sql.touchEnvironment(tx, gone.parentId);
  if (revision !== undefined && keys > 0) await tellEnvironment(tx, gone.accountId, gone.parentId, revision);
}

/** Tells that what connections of an environment lead to has changed. */
export async function tellEnvironment(tx: Tx, accountId: string, scopeId: string, revision: number) {
  await emit(tx, VariablesChangedSchema, accountId, {
    accountId,
    scope: "environment",
    scopeId,
    names: [],
    revision: BigInt(revision),
  });
}
