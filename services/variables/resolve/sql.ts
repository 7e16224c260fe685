// Statements that read the variables of a whole scope chain.
import { type Db, many } from "../../kit/postgres/db.ts";

/** A row of a scope chain, as resolution reads it. */
export type ChainRow = {
  id: string;
  name: string;
  scopeId: string;
  sensitive: boolean;
  size: number;
  connectionService: string | null;
  connectionKey: string | null;
  aliasTarget: string | null;
};

const CHAIN = `id, name, scope_id as "scopeId", sensitive, size, connection_service as "connectionService",
  connection_key as "connectionKey", alias_target as "aliasTarget"`;

/** Lists all rows of scopes, without values. */
export function listChainRows(db: Db, scopeIds: string[]) {
  const text = `select ${CHAIN} from variables where scope_id = any($1)`;
  return many<ChainRow>(db, "chain_rows", text, [scopeIds]);
}

/** Lists all rows of scopes with their sealed values; those of sensitive rows only when `sensitive`. */
export function listSealedChainRows(db: Db, scopeIds: string[], sensitive: boolean) {
  return many<ChainRow & { sealed: Buffer | null }>(
    db,
    "chain_rows_sealed",
    `select ${CHAIN}, case when $2 or not sensitive then sealed end as sealed from variables
     where scope_id = any($1)`,
    [scopeIds, sensitive],
  );
}
