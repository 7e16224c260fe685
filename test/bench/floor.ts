import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import fastify from "fastify";
import pg from "pg";

/**
 * The floor that the platform is measured against: one hand-written process that answers with the resolved variables
 * of one service after the same checks (token, role), the same query and the same decryption, without events, audit,
 * limits, tracing or a second process. `DATABASE_URL` names its database; it prints origin, path and token as one line
 * of JSON.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const key = randomBytes(32);
const token = randomBytes(24).toString("base64url");
const PATH = "/v1/accounts/acc/projects/prj/environments/env/services/web/resolved-variables";

type Row = {
  id: string;
  name: string;
  scope: "project" | "environment" | "service";
  scope_id: string;
  sensitive: boolean;
  sealed: Buffer;
};

function seal(row: Pick<Row, "scope" | "scope_id" | "name">, text: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(Buffer.from(`acc|${row.scope}|${row.scope_id}|${row.name}`));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

function open(row: Row): string {
  const decipher = createDecipheriv("aes-256-gcm", key, row.sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(`acc|${row.scope}|${row.scope_id}|${row.name}`));
  decipher.setAuthTag(row.sealed.subarray(-16));
  return decipher.update(row.sealed.subarray(12, -16), undefined, "utf8") + decipher.final("utf8");
}

/** Returns the variables of a scope on both sides: 50 names in all three scopes, 10 of them sensitive. */
export function sampleVariables(scope: Row["scope"]): { name: string; value: string; sensitive: boolean }[] {
  const [from, to] = { project: [0, 20], environment: [15, 35], service: [30, 50] }[scope] as [
    number,
    number,
  ];
  return Array.from({ length: to - from }, (_, i) => ({
    name: `VARIABLE_${from + i}`,
    value: `${scope}-value-${from + i}-${"x".repeat(24)}`,
    sensitive: (from + i) % 5 === 0,
  }));
}

async function prepare(): Promise<void> {
  await pool.query(`
    create table tokens (hash bytea primary key, user_id text not null, expires_at timestamptz not null);
    create table memberships (user_id text, account_id text, role text not null, primary key (user_id, account_id));
    create table services (id text primary key, account_id text, project_id text, environment_id text, name text,
      unique (environment_id, name));
    create table variables (id text primary key, scope text not null, scope_id text not null, name text not null,
      sensitive boolean not null, sealed bytea not null, unique (scope_id, name));
    insert into memberships values ('usr', 'acc', 'owner');
    insert into services values ('svc', 'acc', 'prj', 'env', 'web');`);
  const hash = createHash("sha256").update(token).digest();
  await pool.query("insert into tokens values ($1, 'usr', now() + interval '1 day')", [hash]);
  for (const [scope, scope_id] of [
    ["project", "prj"],
    ["environment", "env"],
    ["service", "svc"],
  ] as const)
    for (const { name, value, sensitive } of sampleVariables(scope))
      await pool.query("insert into variables values ($1, $2, $3, $4, $5, $6)", [
        `var_${randomBytes(13).toString("hex")}`,
        scope,
        scope_id,
        name,
        sensitive,
        seal({ scope, scope_id, name }, value),
      ]);
}

const RANK = { service: 3, environment: 2, project: 1 };

async function main(): Promise<void> {
  await prepare();
  const app = fastify();
  type Params = { a: string; p: string; e: string; s: string };
  app.get<{ Params: Params }>(
    "/v1/accounts/:a/projects/:p/environments/:e/services/:s/resolved-variables",
    async (req, reply) => {
      const { a, p, e, s } = req.params;
      const bearer = req.headers.authorization?.slice(7) ?? "";
      const { rows: callers } = await pool.query({
        name: "caller",
        text: `select m.role from tokens t join memberships m on m.user_id = t.user_id and m.account_id = $2
             where t.hash = $1 and t.expires_at > now()`,
        values: [createHash("sha256").update(bearer).digest(), a],
      });
      if (!callers[0]) return reply.code(403).send({ error: { code: "forbidden" } });
      const { rows } = await pool.query<Row>({
        name: "rows",
        text: `select v.id, v.name, v.scope, v.scope_id, v.sensitive, v.sealed from services s
             join variables v on v.scope_id in (s.id, s.environment_id, s.project_id)
             where s.environment_id = $3 and s.name = $4 and s.account_id = $1 and s.project_id = $2`,
        values: [a, p, e, s],
      });
      const byName = Map.groupBy(rows, (row) => row.name);
      const data = [...byName.values()].map((group) => {
        const [nearest, ...wider] = group.sort((x, y) => RANK[y.scope] - RANK[x.scope]) as [Row, ...Row[]];
        return {
          name: nearest.name,
          sensitive: nearest.sensitive,
          value: nearest.sensitive ? undefined : open(nearest),
          source: nearest.scope,
          sourceId: nearest.id,
          sourceScopeId: nearest.scope_id,
          shadows: wider.map((row) => ({ scope: row.scope, scopeId: row.scope_id, id: row.id })),
        };
      });
      return { data: data.sort((x, y) => (x.name < y.name ? -1 : 1)), dangling: [] };
    },
  );
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  process.stdout.write(`${JSON.stringify({ origin, path: PATH, token })}\n`);
}

if (import.meta.main) await main();
