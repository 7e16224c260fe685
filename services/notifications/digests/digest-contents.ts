import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Pool } from "../../kit/postgres/db.ts";
import { isKind, type KindKey, kindKeys, labelOf } from "../kinds/kinds.ts";
import type { Directory } from "../recipients/directory.ts";
import * as sql from "./sql.ts";

/** The maximum number of items that a digest shows. */
export const MAX_ITEMS = 50;

/** A notification, or the newest of `count` notifications of one kind about one service. */
export type DigestItem = Pick<sql.ItemRow, "kind" | "title" | "body" | "metadata" | "count"> & { at: Date };

/** The contents of a digest, by account, project and kind. `more` items are left out. */
export type DigestContents = {
  accounts: {
    /** Empty for what concerns only the user, or a deleted account. */
    handle: string;
    projects: {
      /** Empty for what does not concern a project. */
      name: string;
      kinds: { kind: KindKey; label: string; items: DigestItem[] }[];
    }[];
  }[];
  items: number;
  more: number;
};

/**
 * Returns the function that reads the contents of a digest when it is sent, after dropping items that have since been
 * read or switched off; undefined when none is left.
 */
export function createDigestContents({ pool, directory }: { pool: Pool; directory: Directory }) {
  return async (digestId: string): Promise<DigestContents | undefined> => {
    await sql.dropObsoleteItems(pool, digestId);
    const rows = await sql.listItems(pool, digestId, MAX_ITEMS);
    if (rows.length === 0) return undefined;
    const ids = [...new Set(rows.map(({ accountId }) => accountId))].filter(Boolean);
    const accounts = await Promise.all(ids.map((id) => directory.account(id)));
    return toContents(rows, new Map(ids.map((id, n) => [id, accounts[n]!.handle])));
  };
}

/** Groups the items of a digest, newest first within a kind; pure. */
export function toContents(rows: sql.ItemRow[], handles: Map<string, string>): DigestContents {
  const accounts = groupBy(rows, ({ accountId }) => accountId).map(([accountId, ofAccount]) => ({
    handle: handles.get(accountId) ?? "",
    projects: groupBy(ofAccount, ({ metadata }) => metadata.projectId ?? "").map(([, ofProject]) => ({
      name: ofProject[0]!.metadata.project ?? "",
      kinds: groupBy(ofProject, ({ kind }) => kind)
        .sort(([a], [b]) => orderOf(a) - orderOf(b))
        .map(([kind, ofKind]) => ({ kind, label: labelOf(kind), items: ofKind.map(toItem) })),
    })),
  }));
  const total = rows[0]?.total ?? 0;
  return { accounts, items: total, more: total - rows.length };
}

/** Those that only a newer version knows are the last. */
const orderOf = (kind: KindKey) => (isKind(kind) ? kindKeys.indexOf(kind) : kindKeys.length);

const toItem = ({ kind, title, body, metadata, count, createdAt }: sql.ItemRow): DigestItem => ({
  kind,
  title,
  body,
  metadata,
  count,
  at: timestampDate(createdAt),
});

/** Groups rows by key; groups are in the order of their first rows. */
function groupBy<Row, Key>(rows: Row[], keyOf: (row: Row) => Key): [Key, Row[]][] {
  const groups = new Map<Key, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group) group.push(row);
    else groups.set(keyOf(row), [row]);
  }
  return [...groups];
}
