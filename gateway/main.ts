import type { AddressInfo } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { InternalService as BillingInternal } from "../proto/gen/berth/billing/v1/internal_pb.ts";
import { InternalService } from "../proto/gen/berth/identity/v1/internal_pb.ts";
import { hashToken } from "../services/kit/crypto/bearer-token.ts";
import { watchEvents } from "../services/kit/events/metrics.ts";
import type { Logger } from "../services/kit/log.ts";
import { main } from "../services/kit/process/process.ts";
import { type ConnectClient, connectBackends } from "../services/kit/process/service.ts";
import { startTask } from "../services/kit/tasks/task.ts";
import { createAuth } from "./auth/authorize.ts";
import { createCallerCache } from "./auth/caller-cache.ts";
import { invalidateOnEvents } from "./auth/invalidate-on-events.ts";
import { isMachineToken, tokenFaults } from "./auth/token-shapes.ts";
import { fields, type GatewayConfig } from "./config.ts";
import { CONSOLE_PATH, consoleRoutes, readConsole } from "./console/console-routes.ts";
import { docsRoutes } from "./docs/docs-routes.ts";
import { type App, closeApp, createApp } from "./http/app.ts";
import { createIdempotency } from "./limits/idempotency.ts";
import { createRateLimiter, type Limits } from "./limits/rate-limiter.ts";
import { addRateCounts } from "./limits/sql.ts";
import { createCallTool } from "./mcp/call-tool.ts";
import { createConfirmations } from "./mcp/confirmations.ts";
import { registerMcp } from "./mcp/mcp-routes.ts";
import { createToolServers } from "./mcp/server.ts";
import { startMetrics } from "./metrics/metrics-port.ts";
import { type Installation, resourceMetadataUrl } from "./oauth/metadata.ts";
import { registerOauth } from "./oauth/oauth-routes.ts";
import { errorPage } from "./pages/kit/error-page.ts";
import { pageRoutes } from "./pages/page-routes.ts";
import { type RequestDeps, registerRoutes } from "./requests/handle-request.ts";
import { toolCalls } from "./requests/tool-call.ts";
import { allRoutes } from "./routing/routes.ts";
import { createStreamClient } from "./streams/connect-stream.ts";
import { createStreams } from "./streams/open-streams.ts";
import { createStreamSlots } from "./streams/stream-limit.ts";
import { sweep } from "./sweep.ts";
import { SWEEP } from "./tasks.ts";
import { isTunnel, registerTunnels } from "./tunnels/tunnel-proxy.ts";
import { registerDownloads } from "./uploads/download-proxy.ts";
import { registerUploads } from "./uploads/upload-proxy.ts";
import { createForward } from "./upstream/forward.ts";
import { createUnaryClient } from "./upstream/unary.ts";
import { type Upstream, upstreamNames } from "./upstreams.ts";
import { registerStripeWebhook } from "./webhooks/stripe-webhook.ts";

const LOOKUP_MS = 5_000;

/** Starts the gateway and returns where it listens; `stop` finishes open requests. */
export async function start(config: GatewayConfig, log: Logger) {
  const keys = config.internalKeys;
  const backends = await connectBackends({ name: "gateway", folder: import.meta.dirname, config, log });
  const { pool, bus } = backends;
  const callers = createCallerCache({ keys, findCaller: findCallerAt(backends.client, config.identityUrl) });
  invalidateOnEvents(bus, callers, log);
  const limiter = createRateLimiter({
    limits: limitsOf(config),
    add: (counts) => addRateCounts(pool, counts),
    log,
  });
  const unaryClients = forEachUpstream(config, createUnaryClient);
  const streamClients = forEachUpstream(config, createStreamClient);
  let origin = config.publicOrigin ?? "";
  const installation = () => installationOf(config, origin);
  const faultOf = tokenFaults({ issuer: () => (installation().embedded ? origin : undefined) });
  const consoleFiles = config.console === "on" ? await readConsole(log) : undefined;
  const auth = createAuth({
    callers,
    faultOf,
    consoleOrigin: () => (config.console === "on" ? origin : undefined),
  });
  const limit = config.rateLimits === "on" ? config.streamsPerCaller : 0;
  const slots = createStreamSlots({ limit, pool, log });
  const streams = createStreams({
    clients: streamClients,
    auth,
    callers,
    slots,
    accountTimes: config.accountTimes,
    heartbeatMs: config.heartbeatSeconds * 1_000,
    log,
  });
  const tracing = config.otlpUrl !== undefined;
  const app = createApp({
    prefix: config.apiPrefix,
    log,
    trustProxy: config.trustProxy,
    eventsFlow: watchEvents({ bus }),
    bodyMs: config.bodySeconds * 1_000,
    resourceMetadata: () => resourceMetadataUrl(installation()),
    notFoundPage: (sentence) => errorPage("There is no such page", sentence),
    takesOver: isTunnel,
  });
  const idempotency = createIdempotency({ pool, keys, log });
  const routes = allRoutes();
  const requests: RequestDeps = {
    auth,
    callers,
    limiter,
    accountTimes: config.accountTimes,
    idempotency,
    forward: createForward(unaryClients),
    streams,
    keys,
    tracing,
    log,
  };
  registerRoutes(app, config.apiPrefix, routes, requests);
  const servers = await createToolServers({
    callTool: createCallTool({
      callApi: toolCalls(config.apiPrefix, routes, requests),
      confirmations: createConfirmations({ pool, keys }),
      log,
    }),
    routes,
    baseUrl: () => origin + config.apiPrefix,
  });
  const mcp = registerMcp(app, { auth, limiter, installation, servers, tracing, log });
  const uploads = registerUploads(app, config.deployerUrl, { tracing, log });
  const downloads = registerDownloads(app, config.deployerUrl, { tracing, log });
  registerTunnels(app, config.deployerUrl, { tracing, log });
  const oauth = registerOauth(app, {
    providerUrl: config.oauthUrl ?? config.identityUrl,
    identity: backends.client(InternalService, config.identityUrl),
    prefix: config.apiPrefix,
    installation,
    limiter,
    ...{ tracing, log },
  });
  registerStripeWebhook(app, { billing: backends.client(BillingInternal, config.billingUrl), tracing, log });
  const metrics = await startMetrics(config);
  const prefix = config.apiPrefix;
  if (consoleFiles) await consoleRoutes(app, consoleFiles, { prefix, uploadUrl: config.uploadUrl });
  const console = consoleFiles && CONSOLE_PATH;
  const home = console ?? "/profile";
  await pageRoutes(app, { prefix, keys, origin: () => origin, home, console, idempotency, log });
  const baseUrl = () => origin + prefix;
  await docsRoutes(app, { baseUrl, prefix, home: console ?? "/docs" });
  const port = await listen(app, config);
  origin ||= `http://${config.host.includes(":") ? `[${config.host}]` : config.host}:${port}`;
  const address = { port, origin, baseUrl: origin + config.apiPrefix };
  log.info({ baseUrl: address.baseUrl, port: address.port }, "listening");
  const sweeps = startTask(SWEEP, () => sweep(pool), { log });
  return {
    ...address,
    metricsPort: metrics && (metrics.address() as AddressInfo).port,
    stop: async () => {
      streams.stop();
      await closeApp(app);
      await mcp.close();
      metrics?.close();
      await Promise.all(Object.values(streamClients).map((client) => client.close()));
      await sweeps.stop();
      await slots.stop();
      await limiter.stop();
      await Promise.all(
        [...Object.values(unaryClients), uploads, downloads, oauth].map((client) => client.close()),
      );
      await backends.close();
    },
  };
}

function forEachUpstream<T>(config: GatewayConfig, connect: (url: string) => T): Record<Upstream, T> {
  const clients = upstreamNames.map((name) => [name, connect(config[`${name}Url`])]);
  return Object.fromEntries(clients);
}

function findCallerAt(client: ConnectClient, identityUrl: string) {
  const identity = client(InternalService, identityUrl);
  const ask = (token: string) =>
    isMachineToken(token)
      ? identity.lookupMachine({ token }, { timeoutMs: LOOKUP_MS })
      : identity.lookupCaller({ tokenHash: hashToken(token) }, { timeoutMs: LOOKUP_MS });
  return async (token: string) => {
    try {
      // Once more when the connection breaks, as reads are: identity may be rolling.
      return await ask(token).catch((error) => {
        if (ConnectError.from(error).code === Code.Aborted) return ask(token);
        throw error;
      });
    } catch (error) {
      if (error instanceof ConnectError && error.code === Code.Unauthenticated) return undefined;
      throw error;
    }
  };
}

function installationOf(config: GatewayConfig, origin: string): Installation {
  const { apiPrefix: prefix, oauthResource, oauthUrl, clientIdMetadata } = config;
  const embedded = oauthUrl === undefined;
  const documents = embedded && clientIdMetadata === "on";
  return { origin, prefix, resource: oauthResource ?? origin + prefix, embedded, documents };
}

function limitsOf(config: GatewayConfig): Limits {
  const on = config.rateLimits === "on" ? 1 : 0;
  return {
    reads: on * config.rateReads,
    writes: on * config.rateWrites,
    reveals: on * config.rateReveals,
    setReveals: on * config.rateSetReveals,
    batches: on * config.rateBatches,
    newTokens: on * config.rateNewTokens,
    loginRequests: on * config.ratePublic,
    signIns: on * config.ratePublic,
    passwordResets: on * config.ratePublic,
    links: on * config.ratePublic,
    unsubscriptions: on * config.ratePublic,
    authorizations: on * config.ratePublic,
    decisions: on * config.rateDecisions,
    tokens: on * config.rateTokens,
    tokenFailures: on * config.rateTokenFailures,
    registrations: on * config.rateRegistrations,
    registrationsDaily: on * config.rateRegistrationsDaily,
  };
}

async function listen(app: App, config: GatewayConfig): Promise<number> {
  await app.listen({ host: config.host, port: config.port });
  return (app.server.address() as AddressInfo).port;
}

if (import.meta.main) await main("gateway", fields, start);
