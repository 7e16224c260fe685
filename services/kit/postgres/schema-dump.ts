import type { Pool } from "./db.ts";

/** Returns the current schema as text: tables with columns, constraints, indexes and triggers, in a stable order. */
export async function dumpSchema(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ line: string }>(`
    with tables as (
      select c.oid, c.relname from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
    )
    select line from (
      select relname, 0 as part, 0 as n, format('table %s', relname) as line from tables
      union all
      select t.relname, 1, a.attnum, format('  %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        case when a.attnotnull then ' not null' else '' end,
        case when a.attidentity <> '' then ' identity'
             else coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') end)
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
      union all
      select t.relname, 2, row_number() over (partition by t.relname order by c.conname),
        format('  constraint %s %s', c.conname, pg_get_constraintdef(c.oid))
      from tables t join pg_constraint c on c.conrelid = t.oid and c.contype <> 'n'
      union all
      select t.relname, 3, row_number() over (partition by t.relname order by i.relname),
        '  ' || replace(pg_get_indexdef(i.oid), current_schema() || '.', '')
      from tables t join pg_index x on x.indrelid = t.oid join pg_class i on i.oid = x.indexrelid
      where not exists (select from pg_constraint c where c.conindid = x.indexrelid and c.contype in ('p', 'u', 'x'))
      union all
      select t.relname, 4, row_number() over (partition by t.relname order by g.tgname),
        '  ' || replace(pg_get_triggerdef(g.oid), current_schema() || '.', '')
      from tables t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
    ) lines order by relname, part, n`);
  return `${rows.map((row) => row.line).join("\n")}\n`;
}
