import type { BatchVariablesRequest } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { listReplaced, type NewVariable } from "../rows/sql.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Vault } from "../seal/data-keys.ts";
import { overwrite, type Source, toRow } from "../writes/variable-row.ts";
import type { Decision, Written } from "../writes/write.ts";
import type { Guard } from "./guards.ts";
import { toMessages } from "./variable-message.ts";

/** Returns the sealed rows of a batch. Called before the lock is taken, because sealing is most of the work. */
export function sealBatch(vault: Vault, scope: Scope, req: BatchVariablesRequest, sources: Source[]) {
  return req.set.map(({ name, sensitive }, index) =>
    toRow(vault, scope, { name, sensitive }, sources[index]!),
  );
}

/** Returns what a batch changes. Throws what `guard` throws. */
export async function decideBatch(
  tx: Tx,
  scope: Scope,
  req: BatchVariablesRequest,
  drafts: NewVariable[],
  guard: Guard,
): Promise<Decision> {
  await guard(tx);
  const names = req.set.map((entry) => entry.name);
  const replaced = await listReplaced(tx, scope.id, [...names, ...req.unset]);
  const before = new Map(replaced.map((row) => [row.name, row]));
  const unset = [...new Set(req.unset)].filter((name) => before.has(name));
  const set = drafts.map((row, index) => overwrite(row, req.set[index]!.sensitive, before.get(row.name)));
  const metadata = { set: names.join(","), unset: unset.join(",") };
  return { action: "variable.batch", target: scope.id, metadata, set, unset, replaced };
}

/** Returns the answer to a batch: the rows that it wrote, without values, in the order of its entries. */
export async function batchAnswer(tx: Tx, scope: Scope, req: BatchVariablesRequest, written: Written) {
  const position = new Map(req.set.map((entry, index) => [entry.name, index]));
  const data = await toMessages(tx, scope, written.rows);
  data.sort((a, b) => position.get(a.name!)! - position.get(b.name!)!);
  const { removed, warnings } = written;
  return { data, applied: data.length, removed, warnings };
}
