import type { ServiceImpl } from "@connectrpc/connect";
import type { VariablesService } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { auditRecord } from "../../kit/events/audit.ts";
import { emitAll, published } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { isNotModified, setTag } from "../../kit/rpc/etag.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, refuse } from "../../kit/rpc/refusals.ts";
import type { FollowedSets } from "../follow/followed-sets.ts";
import { readConfigEnv } from "../resolve/config-env.ts";
import type { ResolvedSets } from "../resolve/resolved-sets.ts";
import { reveal } from "../resolve/reveal.ts";
import * as sql from "../rows/sql.ts";
import { isAddon, type Scope, type ScopePath } from "../scopes/scope.ts";
import type { Deployer, Scopes } from "../scopes/scopes.ts";
import type { DataKeys } from "../seal/data-keys.ts";
import { refuseLargeBatch } from "../writes/set-size.ts";
import { applyPatch, isLiteral, tagOf, toRow } from "../writes/variable-row.ts";
import { auditMetadata, write } from "../writes/write.ts";
import { batchAnswer, decideBatch, sealBatch } from "./batch.ts";
import { expectCurrent, findImpact, impactGuard, requireVariable } from "./guards.ts";
import { parseBatch, parsePatch, parseSource } from "./request-rules.ts";
import { revealRecords } from "./reveal-records.ts";
import { streamResolved } from "./stream-resolved.ts";
import { toMessages, toMessagesWithValues } from "./variable-message.ts";

type VariableDeps = {
  pool: Pool;
  deployer: Pick<Deployer, "getServiceEnv">;
  cursors: Cursors;
  scopes: Scopes;
  keys: DataKeys;
  sets: ResolvedSets;
  followed: FollowedSets;
};

/** Variables at their three scopes, and what services resolve from them (docs/variables.md#scopes). */
export function variableService(deps: VariableDeps): ServiceImpl<typeof VariablesService> {
  const { pool, cursors, scopes, keys, sets, followed } = deps;
  return {
    async listVariables(req) {
      const scope = await scopes.find(req);
      const { data, page } = await cursors.page(`variables:${scope.id}`, req, (part) =>
        sql.listVariables(pool, scope.id, part),
      );
      const vault = data.some(isLiteral) ? await keys.load(scope.accountId) : undefined;
      return { data: await toMessagesWithValues(pool, scope, data, vault), page };
    },

    async createVariable(req, ctx) {
      const scope = await scopes.find(req);
      const source = parseSource(req.name, req);
      const vault = await keys.loadOrCreate(scope.accountId);
      await scopes.discoverServices(scope, source.kind === "connection" ? [source.service] : []);
      const row = toRow(vault, scope, { id: newId("var"), name: req.name, sensitive: req.sensitive }, source);
      const at = { path: req, scope, ctx };
      return write(
        deps,
        at,
        async (tx) => {
          const replaced = await sql.listReplaced(tx, scope.id, [req.name]);
          if (replaced.length > 0)
            throw conflict("variable_exists", `${req.name} already exists in this ${scope.kind}.`);
          return { action: "variable.create", target: req.name, set: [row], unset: [], replaced };
        },
        async (tx, { rows, warnings }) => {
          const [message] = await toMessagesWithValues(tx, scope, rows, vault);
          return { ...message, warnings };
        },
      );
    },

    async batchVariables(req, ctx) {
      const scope = await scopes.find(req);
      const sources = parseBatch(req.set, req.unset);
      refuseLargeBatch(req.set);
      const vault = await keys.loadOrCreate(scope.accountId);
      const services = sources.flatMap((source) => (source.kind === "connection" ? [source.service] : []));
      await scopes.discoverServices(scope, [...new Set(services)]);
      const guard = await impactGuard(scopes, scope, req.unset, req.confirmImpact);
      const drafts = sealBatch(vault, scope, req, sources);
      return write(
        deps,
        { path: req, scope, ctx },
        (tx) => decideBatch(tx, scope, req, drafts, guard),
        (tx, written) => batchAnswer(tx, scope, req, written),
      );
    },

    async getVariable(req, ctx) {
      const scope = await scopes.find(req);
      const row = await requireVariable(pool, scope, req.variableName);
      const vault = isLiteral(row) ? await keys.load(scope.accountId) : undefined;
      const [message] = await toMessages(pool, scope, [row]);
      if (isNotModified(ctx, tagOf(row, message!.sensitive))) return {};
      const [open] = await toMessagesWithValues(pool, scope, [row], vault);
      return open!;
    },

    async updateVariable(req, ctx) {
      const scope = await scopes.find(req);
      const { variableName: name } = req;
      const patch = parsePatch(name, req);
      const vault = await keys.loadOrCreate(scope.accountId);
      await scopes.discoverServices(scope, patch.source?.kind === "connection" ? [patch.source.service] : []);
      const at = { path: req, scope, ctx };
      return write(
        deps,
        at,
        async (tx) => {
          const old = await requireVariable(tx, scope, name);
          await expectCurrent(tx, ctx, scope, old);
          const { action, row } = applyPatch(vault, scope, old, patch);
          return {
            action,
            target: name,
            set: [row],
            unset: [],
            replaced: [{ ...old, literal: isLiteral(old) }],
          };
        },
        async (tx, { rows, warnings }) => {
          const [message] = await toMessagesWithValues(tx, scope, rows, vault);
          setTag(ctx, tagOf(rows[0]!, message!.sensitive));
          return { ...message, warnings };
        },
      );
    },

    async deleteVariable(req, ctx) {
      const scope = await scopes.find(req);
      const { variableName: name } = req;
      const at = { path: req, scope, ctx };
      const guard = await impactGuard(scopes, scope, [name], req.confirmImpact);
      return write(
        deps,
        at,
        async (tx) => {
          const old = await requireVariable(tx, scope, name);
          await expectCurrent(tx, ctx, scope, old);
          await guard(tx);
          return { action: "variable.delete", target: name, set: [], unset: [name], replaced: [] };
        },
        async () => ({}),
      );
    },

    async getVariableImpact(req) {
      const scope = await scopes.find(req);
      await requireVariable(pool, scope, req.variableName);
      const services = await scopes.listServicesUnder(scope);
      return findImpact(pool, scope, [req.variableName], services, null);
    },

    async revealVariable(req, ctx) {
      const scope = await scopes.find(req);
      const { variableName: name } = req;
      await requireVariable(pool, scope, name);
      const vault = await keys.load(scope.accountId);
      let record: string | undefined;
      // The value is answered only after its audit record is committed, and published unless NATS is away.
      const revealed = await effect(pool, ctx, async (tx) => {
        const value = await reveal(tx, vault, scope, name);
        const entry = {
          service: "variables",
          accountId: scope.accountId,
          action: "variable.reveal",
          target: name,
          metadata: auditMetadata(scope),
        };
        [record] = await emitAll(tx, [auditRecord(who(ctx), entry)]);
        return { name, value };
      });
      if (record) await published(pool, record);
      return revealed;
    },

    async getResolvedVariables(req, ctx) {
      const scope = await findResolving(scopes, req);
      const config = await readConfigEnv(deps, scope);
      if (isNotModified(ctx, scope.tag + config.tag)) return {};
      return sets.read(scope, config);
    },

    async *followResolvedVariables(req, ctx) {
      yield* streamResolved(followed, await findResolving(scopes, req), req, ctx.signal);
    },

    async revealResolvedVariables(req, ctx) {
      const scope = await findResolving(scopes, req);
      const config = await readConfigEnv(deps, scope);
      let records: string[] = [];
      const revealed = await effect(pool, ctx, async (tx) => {
        const set = await sets.reveal(tx, scope, config);
        records = await emitAll(tx, revealRecords(who(ctx), scope, req.service, set.data));
        return set;
      });
      // The relay publishes in order.
      const last = records.at(-1);
      if (last) await published(pool, last);
      return revealed;
    },
  };
}

/** Returns the scope of a service that resolves variables. Throws 404, also for a managed addon. */
async function findResolving(scopes: Scopes, path: ScopePath): Promise<Scope> {
  const scope = await scopes.find(path);
  if (isAddon(scope.serviceType)) throw refuse(404, "not_found", "A managed addon resolves no variables.");
  return scope;
}
