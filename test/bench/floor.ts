import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import pg from "pg";
import { newId } from "../../services/kit/ids.ts";

/**
 * The floor that reads are measured against: one hand-written process that answers the same requests from the same
 * database, without events, audit, limits, tracing or a second process. It uses what Berth uses too, and no more: a
 * token's caller is kept for 5 s, one prepared statement finds scope and revision, and an answer is kept as text while
 * the revision stands. Ids, and so requests and answers, are as long as Berth's. `DATABASE_URL` names its database; it
 * prints origin, paths and token as one line of JSON.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const key = randomBytes(32);
const token = randomBytes(24).toString("base64url");
const [acc, prj, env, svc] = ["acc", "prj", "env", "svc"].map((one) => newId(one)) as [
  string,
  string,
  string,
  string,
];
const SERVICE = `/v1/accounts/${acc}/projects/${prj}/environments/${env}/services/web`;
const CALLER_MS = 5_000;
const PAGE = 20;

type Scope = "project" | "environment" | "service";
type Row = {
  id: string;
  name: string;
  scope: Scope;
  scope_id: string;
  sensitive: boolean;
  sealed: Buffer;
  created_at: Date;
  updated_at: Date;
};
type Params = { a: string; p: string; e: string; s: string };

function seal(row: Pick<Row, "scope" | "scope_id" | "name">, text: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(Buffer.from(`${acc}|${row.scope}|${row.scope_id}|${row.name}`));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

function open(row: Row): string {
  const decipher = createDecipheriv("aes-256-gcm", key, row.sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(`${acc}|${row.scope}|${row.scope_id}|${row.name}`));
  decipher.setAuthTag(row.sealed.subarray(-16));
  return decipher.update(row.sealed.subarray(12, -16), undefined, "utf8") + decipher.final("utf8");
}

/** Returns the variables of a scope on both sides: 50 names in all three scopes, 10 of them sensitive. */
export function sampleVariables(scope: Scope): { name: string; value: string; sensitive: boolean }[] {
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
      type text not null, status text not null, source jsonb not null, config jsonb not null, url text,
      revision bigint not null default 1, created_at timestamptz not null default now(),
      unique (environment_id, name));
    create table variables (id text primary key, scope text not null, scope_id text not null, name text not null,
      sensitive boolean not null, sealed bytea not null, created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(), unique (scope_id, name));
    insert into memberships values ('usr', '${acc}', 'owner');
    insert into services (id, account_id, project_id, environment_id, name, type, status, source, config)
      values ('${svc}', '${acc}', '${prj}', '${env}', 'web', 'web', 'pending', '{}',
        '{"port":8080,"replicas":1,"size":"nano","env":{},"autoApply":true}');`);
  const hash = createHash("sha256").update(token).digest();
  await pool.query("insert into tokens values ($1, 'usr', now() + interval '1 day')", [hash]);
  for (const [scope, scope_id] of [
    ["project", prj],
    ["environment", env],
    ["service", svc],
  ] as const)
    for (const { name, value, sensitive } of sampleVariables(scope))
      await pool.query(
        "insert into variables (id, scope, scope_id, name, sensitive, sealed) values ($1, $2, $3, $4, $5, $6)",
        [newId("var"), scope, scope_id, name, sensitive, seal({ scope, scope_id, name }, value)],
      );
  await pool.query("analyze");
}

const callers = new Map<string, { accounts: string[]; until: number }>();

/** Refuses a request whose token is unknown or has no role in the account. */
async function authorize(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const bearer = request.headers.authorization?.slice(7) ?? "";
  const hash = createHash("sha256").update(bearer).digest();
  const known = hash.toString("base64");
  let caller = callers.get(known);
  if (!caller || caller.until < Date.now()) {
    const { rows } = await pool.query<{ account_id: string }>({
      name: "caller",
      text: `select m.account_id from tokens t join memberships m on m.user_id = t.user_id
             where t.hash = $1 and t.expires_at > now()`,
      values: [hash],
    });
    caller = { accounts: rows.map(({ account_id }) => account_id), until: Date.now() + CALLER_MS };
    callers.set(known, caller);
  }
  if (!caller.accounts.includes((request.params as Params).a))
    reply.code(403).send({ error: { code: "forbidden" } });
}

const answers = new Map<string, { revision: string; text: string }>();

async function resolved(request: FastifyRequest, reply: FastifyReply) {
  const { a, p, e, s } = request.params as Params;
  const { rows } = await pool.query<{ id: string; revision: string }>({
    name: "revision",
    text: `select id, revision from services
           where environment_id = $3 and name = $4 and account_id = $1 and project_id = $2`,
    values: [a, p, e, s],
  });
  const service = rows[0];
  if (!service) return reply.code(404).send({ error: { code: "not_found" } });
  const tag = `"${service.id}-${service.revision}"`;
  reply.header("etag", tag).header("cache-control", "private, no-cache");
  if (request.headers["if-none-match"] === tag) return reply.code(304).send();
  let answer = answers.get(service.id);
  if (answer?.revision !== service.revision) {
    answer = { revision: service.revision, text: JSON.stringify(await readResolved([service.id, e, p])) };
    answers.set(service.id, answer);
  }
  return reply.type("application/json").send(answer.text);
}

const RANK = { service: 3, environment: 2, project: 1 };

async function readResolved(scopes: string[]) {
  const { rows } = await pool.query<Row>({
    name: "chain",
    text: "select id, name, scope, scope_id, sensitive, sealed from variables where scope_id = any($1)",
    values: [scopes],
  });
  const data = [...Map.groupBy(rows, (row) => row.name).values()].map((group) => {
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
}

async function list(request: FastifyRequest) {
  const { a, p, e, s } = request.params as Params;
  const { rows } = await pool.query<Row>({
    name: "page",
    text: `select v.* from services s join variables v on v.scope_id = s.id
           where s.environment_id = $3 and s.name = $4 and s.account_id = $1 and s.project_id = $2
           order by v.id desc limit $5`,
    values: [a, p, e, s, PAGE + 1],
  });
  const data = rows.slice(0, PAGE).map((row) => ({
    id: row.id,
    name: row.name,
    scope: row.scope,
    scopeId: row.scope_id,
    sensitive: row.sensitive,
    value: row.sensitive ? undefined : open(row),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }));
  const hasMore = rows.length > PAGE;
  return { data, page: { nextCursor: hasMore ? data.at(-1)!.id : "", hasMore } };
}

async function service(request: FastifyRequest, reply: FastifyReply) {
  const { a, p, e, s } = request.params as Params;
  const { rows } = await pool.query({
    name: "service",
    text: `select id, name, type, status, source, config, url, created_at as "createdAt" from services
           where environment_id = $3 and name = $4 and account_id = $1 and project_id = $2`,
    values: [a, p, e, s],
  });
  return rows[0] ?? reply.code(404).send({ error: { code: "not_found" } });
}

async function main(): Promise<void> {
  await prepare();
  const app = fastify();
  const S = "/v1/accounts/:a/projects/:p/environments/:e/services/:s";
  const options = { onRequest: authorize };
  app.get(`${S}/resolved-variables`, options, resolved);
  app.get(`${S}/variables`, options, list);
  app.get(S, options, service);
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  process.stdout.write(`${JSON.stringify({ origin, service: SERVICE, token })}\n`);
}

if (import.meta.main) await main();
