import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import type { ServiceImpl } from "@connectrpc/connect";
import { CatalogService } from "../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { VariablesService } from "../proto/gen/berth/variables/v1/variables_pb.ts";
import { createLog } from "../services/kit/log.ts";
import { readConfig } from "../services/kit/process/config.ts";
import { type ServerOptions, serve } from "../services/kit/process/server.ts";
import { testDatabase, testKeys } from "../services/kit/testing/testing.ts";
import { startIdentity } from "../test/support/identity.ts";
import { testNats } from "../test/support/nats.ts";
import { fields } from "./config.ts";
import { start } from "./main.ts";

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown> & {
    error: { code: string; message: string; requestId: string; details: Detail[] } & Record<string, unknown>;
  };
};
type Detail = { path: string; reason: string; message: string };

/** What stands behind a gateway under test, in place of services that a test does not need. */
export type Behind = {
  variables?: Partial<ServiceImpl<typeof VariablesService>>;
  catalog?: Partial<ServiceImpl<typeof CatalogService>>;
  deployments?: Partial<ServiceImpl<typeof DeploymentService>>;
  /** Requests at the deployer that are not RPCs. */
  uploads?: ServerOptions["other"];
};

export type Surroundings = Awaited<ReturnType<typeof surroundings>>;

const log = createLog("test", "silent");

/**
 * A database, NATS, a real identity with one owner, and kit servers that answer the other services'
 * RPCs by the given handlers; gateways are started on it.
 */
export async function surroundings(behind: Behind = {}) {
  const [database, nats] = await Promise.all([testDatabase(["identity", "gateway"]), testNats()]);
  const identity = await startIdentity({ databaseUrl: database.url("identity"), natsUrl: nats.url });
  const { ownerToken } = identity;
  const kit = { host: "127.0.0.1", port: 0, grpcPort: 0, keys: testKeys, log, ready: async () => true };
  const variables = await serve({
    ...kit,
    routes: (router) => router.service(VariablesService, behind.variables ?? {}),
  });
  const deployer = await serve({
    ...kit,
    routes: (router) => {
      router.service(CatalogService, behind.catalog ?? {});
      router.service(DeploymentService, behind.deployments ?? {});
    },
    ...(behind.uploads && { other: behind.uploads }),
  });
  const gatewayEnv: Record<string, string> = {
    NATS_URL: nats.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(),
    LOG_LEVEL: "silent",
    DATABASE_URL: database.url("gateway"),
    IDENTITY_URL: `http://127.0.0.1:${identity.port}`,
    VARIABLES_URL: `http://127.0.0.1:${variables.port}`,
    DEPLOYER_URL: `http://127.0.0.1:${deployer.port}`,
    RATE_LIMITS: "off",
  };
  const gateways = new Set<() => Promise<void>>();
  return {
    database,
    nats,
    ownerToken,
    gatewayEnv,
    /** A gateway of its own; `extra` adds environment variables. */
    async gateway(extra: Record<string, string> = {}, lines?: string[]) {
      const sink = lines && ((line: string) => void lines.push(line));
      const toLog = lines ? createLog("gateway", "debug", sink) : log;
      const running = await start(readConfig({ ...gatewayEnv, ...extra }, fields), toLog);
      const stop = async () => {
        if (gateways.delete(stop)) await running.stop();
      };
      gateways.add(stop);
      return { ...running, stop, call: caller(running.baseUrl, ownerToken) };
    },
    stopIdentity: () => identity.stop(),
    async stop() {
      await Promise.all([...gateways].map((stop) => stop()));
      await Promise.all([identity.stop(), variables.stop(), deployer.stop()]);
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}

/** Sends requests as the owner, or with the token (`""`: none) and headers of `options`. */
export function caller(baseUrl: string, ownerToken: string) {
  return async (
    method: string,
    path: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<Answer> => {
    const token = options.token ?? ownerToken;
    const answer = await fetch(baseUrl + path, {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...options.headers,
      },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    const json = answer.headers.get("content-type")?.startsWith("application/json");
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: json && text ? JSON.parse(text) : {},
    };
  };
}

/** Status with code or reasons: `422 unknown_field`. */
export function refusalOf({ status, body }: Answer): string {
  const reasons = (body.error?.details ?? []).map((detail) => detail.reason);
  return [status, ...(reasons.length > 0 ? reasons : [body.error?.code])].join(" ");
}

export const anyName = (prefix: string) => `${prefix}${randomBytes(5).toString("hex")}`;

/** Sends 64 KiB pieces until all are sent or an answer comes, as a client with a large body does. */
export async function sendLarge(request: ClientRequest, pieces: number): Promise<IncomingMessage> {
  request.setMaxListeners(0);
  const answered = once(request, "response") as Promise<[IncomingMessage]>;
  for (let i = 0; i < pieces; i++)
    if (!request.write(Buffer.alloc(65_536, "x"))) await Promise.race([once(request, "drain"), answered]);
  request.end();
  const [response] = await answered;
  return response.resume();
}
