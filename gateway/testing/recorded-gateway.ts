import { create } from "@bufbuild/protobuf";
import { ServiceSchema } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { who } from "../../services/kit/rpc/interceptor.ts";
import { conflict, notFound } from "../../services/kit/rpc/refusals.ts";
import { type Stubs, testPlatform } from "./test-platform.ts";

/** What a service behind the gateway was asked. */
export type RecordedCall = {
  method: string;
  request: Record<string, unknown>;
  caller: Record<string, unknown>;
  id: string;
};

/** The tag of every resolved set. */
export const ETAG = '"r7"';

/** Starts a gateway before services that answer by fixed values and record what they are asked. */
export async function recordedGateway() {
  const asked: RecordedCall[] = [];
  const logLines: string[] = [];
  const platform = await testPlatform(recordingStubs(asked));
  const gateway = await platform.gateway({}, logLines);
  const { body } = await gateway.call("GET", "/accounts");
  const A = `/accounts/${(body.data as { id: string }[])[0]!.id}`;
  const P = `${A}/projects/prj_1`;
  const S = `${P}/environments/env_1/services/web`;
  return { platform, gateway, call: gateway.call, asked, logLines, A, P, S };
}

function recordingStubs(asked: RecordedCall[]): Stubs {
  const note = (method: string, request: object, ctx: Parameters<typeof who>[0]) => {
    const { caller, requestId } = who(ctx);
    asked.push({ method, request: request as Record<string, unknown>, caller, id: requestId });
  };
  return {
    variables: {
      listVariables: (request, ctx) => {
        note("listVariables", request, ctx);
        return { data: [{ name: "A" }], page: { nextCursor: "", hasMore: false } };
      },
      createVariable: (request, ctx) => {
        note("createVariable", request, ctx);
        const { name, value, sensitive = false } = request;
        return { id: "var_1", name, value, sensitive };
      },
      batchVariables: (request, ctx) => {
        note("batchVariables", request, ctx);
        return { applied: request.set.length };
      },
      deleteVariable: (request, ctx) => {
        note("deleteVariable", request, ctx);
        if (!request.confirmImpact)
          throw conflict("impact_confirmation_required", "Services lose it.", {
            impact: { total: 2, services: [] },
          });
        return {};
      },
      getResolvedVariables: (_request, ctx) => {
        ctx.responseHeader.set("etag", ETAG);
        if (ctx.requestHeader.get("if-none-match") === ETAG)
          ctx.responseHeader.set("berth-not-modified", "1");
        return {};
      },
      revealVariable: () => {
        throw new Error("a secret sentence");
      },
    },
    catalog: {
      getService: (request, ctx) => {
        note("getService", request, ctx);
        if (request.service !== "web") throw notFound("service");
        return create(ServiceSchema, { name: "web" });
      },
      createService: (request) => create(ServiceSchema, { name: request.name }),
    },
    billing: {
      getStatement: ({ month }) => {
        if (month !== "2026-10") throw notFound("statement");
        return { month, lines: [{ kind: "service", description: "web, of shop", amountUsd: 1e-7 }] };
      },
    },
    deployments: {
      deployFromArchive: (request) =>
        request.archiveRef === "staged"
          ? {
              result: { case: "acknowledgement", value: { staged: true, reason: "service_not_provisioned" } },
            }
          : { result: { case: "deployment", value: { id: "dep_1", status: "queued" } } },
      rollback: ({ dryRun }) =>
        dryRun
          ? { result: { case: "dryRun", value: { eligible: true, diff: {} } } }
          : { result: { case: "deployment", value: { id: "dep_2", status: "queued" } } },
      getBuildLogs: (request) => ({ version: request.version, logs: "…ä\n" }),
      listLogs: (request, ctx) => {
        note("listLogs", request, ctx);
        return {};
      },
    },
  };
}
