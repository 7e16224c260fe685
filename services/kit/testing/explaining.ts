import type { Db, Pool, Tx } from "../postgres/db.ts";

/**
 * Returns a `db` that carries statements out only to explain them, answers no rows, and collects the plans: what a statement
 * reads says on every machine the same about how its work grows.
 */
export function explaining(pool: Pool) {
  const plans: string[] = [];
  const query = async ({ text, values }: { text: string; values: unknown[] }) => {
    const { rows } = await pool.query(`explain (analyze, costs off, timing off) ${text}`, values);
    plans.push(rows.map((row) => row["QUERY PLAN"]).join("\n"));
    return { rows: [] };
  };
  return { db: { query } as unknown as Db, plans };
}

/** Returns how many rows the largest step of a plan had, all its loops together. */
export function mostRows(plan: string): number {
  const steps = plan.matchAll(/rows=([\d.]+) loops=(\d+)/g);
  return Math.max(...[...steps].map(([, rows, loops]) => Math.round(Number(rows) * Number(loops))));
}

/** Returns a `db` that carries statements out, and counts them. */
export function counting(db: Db) {
  const counted = { statements: 0 };
  const query = (...statement: unknown[]) => {
    counted.statements++;
    return (db.query as (...statement: unknown[]) => unknown).apply(db, statement);
  };
  return { db: { query } as unknown as Tx, counted };
}
