import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { freePort } from "../deploy/local/ports.ts";
import { fields as gatewayFields } from "../gateway/config.ts";
import { start as startGateway } from "../gateway/main.ts";
import { fields as deployerFields } from "../services/deployer/config.ts";
import { start as startDeployer } from "../services/deployer/main.ts";
import { fields as identityFields } from "../services/identity/config.ts";
import { start as startIdentity } from "../services/identity/main.ts";
import { makeToken } from "../services/identity/tokens.ts";
import { readConfig } from "../services/kit/config.ts";
import { createLog } from "../services/kit/log.ts";
import { testDatabase, testNats } from "../services/kit/testing.ts";
import { fields as variablesFields } from "../services/variables/config.ts";
import { start as startVariables } from "../services/variables/main.ts";

export type Answer<T = Record<string, unknown>> = {
  status: number;
  headers: Headers;
  body: T & { error?: { code: string; message: string; details: Detail[] } & Record<string, unknown> };
};
export type Detail = { path: string; reason: string; message: string };

/** The whole platform in this process, on servers and folders of its own, seen through its public door. */
export type World = Awaited<ReturnType<typeof startWorld>>;

const base64Key = () => randomBytes(32).toString("base64");

/**
 * Starts identity, variables, deployer and gateway with their real configuration readers. `extra` adds
 * environment variables. Rate limits are off unless `extra` sets them.
 */
export async function startWorld(extra: Record<string, string> = {}) {
  const services = ["identity", "variables", "deployer", "gateway"];
  const [database, nats, dir] = await Promise.all([
    testDatabase(services),
    testNats(),
    mkdtemp(join(tmpdir(), "berth-world-")),
  ]);
  const ports = { identity: await freePort(), variables: await freePort(), deployer: await freePort() };
  const gatewayPort = await freePort();
  const origin = `http://127.0.0.1:${gatewayPort}`;
  const ownerToken = makeToken("pat");
  const logLines: string[] = [];
  const env = (service: string): Record<string, string> => ({
    DATABASE_URL: database.url(service),
    NATS_URL: nats.url,
    PORT: String(service === "gateway" ? gatewayPort : ports[service as keyof typeof ports]),
    INTERNAL_KEYS: internalKeys,
    ENCRYPTION_KEYS: encryptionKeys,
    SECRET_KEYS: secretKeys,
    UPLOAD_KEYS: secretKeys,
    LOG_LEVEL: "debug",
    PUBLIC_ORIGIN: origin,
    IDENTITY_URL: `http://127.0.0.1:${ports.identity}`,
    VARIABLES_URL: `http://127.0.0.1:${ports.variables}`,
    DEPLOYER_URL: `http://127.0.0.1:${ports.deployer}`,
    BOOTSTRAP_OWNER_EMAIL: "owner@example.com",
    BOOTSTRAP_OWNER_PASSWORD: "a-password-of-the-owner",
    BOOTSTRAP_OWNER_TOKEN: ownerToken,
    DATA_DIR: join(dir, "deployer"),
    ROUTER_PORT: String(routerPort),
    ADDON_POSTGRES_URL: inject("postgresAdminUrl"),
    RATE_LIMITS: "off",
    ...extra,
  });
  const [internalKeys, secretKeys] = [base64Key(), base64Key()];
  const encryptionKeys = `k1:${base64Key()}`;
  const routerPort = await freePort();
  const log = (service: string) => createLog(service, "debug", (line) => void logLines.push(line));

  const [identity, variables, deployer] = await Promise.all([
    startIdentity(readConfig(env("identity"), identityFields), log("identity")),
    startVariables(readConfig(env("variables"), variablesFields), log("variables")),
    startDeployer(readConfig(env("deployer"), deployerFields), log("deployer")),
  ]);
  const gateway = await startGateway(readConfig(env("gateway"), gatewayFields), log("gateway"));
  const baseUrl = `${origin}/v1`;

  async function call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<Answer<T>> {
    const headers: Record<string, string> = { ...options.headers };
    const token = options.token ?? ownerToken;
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] ??= "application/json";
    const answer = await fetch(baseUrl + path, {
      method,
      headers,
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text ? JSON.parse(text) : {} };
  }

  /** As `call`, and throws unless the answer is a success. */
  async function must<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    token?: string,
  ): Promise<T> {
    const answer = await call<T>(method, path, body, { token });
    if (answer.status >= 300)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  const accounts = await must<{ data: { id: string }[] }>("GET", "/accounts");
  const accountId = accounts.data[0]!.id;
  return {
    origin,
    baseUrl,
    ownerToken,
    accountId,
    /** Base path of the owner's account. */
    A: `/accounts/${accountId}`,
    ports,
    /** Ports of the services' gRPC servers, and the keys that sign a caller for them. */
    grpcPorts: { identity: identity.grpcPort, variables: variables.grpcPort, deployer: deployer.grpcPort },
    internalKeys: internalKeys.split(",").map((key) => Buffer.from(key, "base64")),
    routerPort,
    dir,
    logLines,
    database,
    nats,
    call,
    must,
    /** A project with one environment: their base paths, and that of a service in it. */
    async environment(name = `p${randomBytes(4).toString("hex")}`) {
      const project = await must<{ id: string }>("POST", `/accounts/${accountId}/projects`, { name });
      const P = `/accounts/${accountId}/projects/${project.id}`;
      const made = await must<{ id: string }>("POST", `${P}/environments`, { name: "production" });
      const E = `${P}/environments/${made.id}`;
      return {
        name,
        projectId: project.id,
        environmentId: made.id,
        P,
        E,
        S: (service: string) => `${E}/services/${service}`,
      };
    },
    /** A new user of the owner's account with this role, signed in. */
    async member(role: "reader" | "editor" | "owner") {
      const email = `${role}-${randomBytes(4).toString("hex")}@example.com`;
      const password = randomBytes(12).toString("hex");
      const { userId } = await must<{ userId: string }>("POST", `/accounts/${accountId}/members`, {
        email,
        role,
        password,
      });
      const session = await must<{ token: string }>("POST", "/sessions", { email, password }, "");
      return { userId, email, password, token: session.token };
    },
    async stop() {
      await gateway.stop();
      await Promise.all([identity, variables, deployer].map((service) => service.stop()));
      await Promise.all([database.drop(), nats.remove(), rm(dir, { recursive: true, force: true })]);
    },
  };
}

/** Code and reasons of a refusal, for short assertions: `409 variable_exists`, `422 invalid_name`. */
export function refusal(answer: Answer): string {
  const { error } = answer.body;
  const reasons = (error?.details ?? []).map((detail) => detail.reason);
  return [answer.status, ...(reasons.length > 0 ? reasons : [error?.code])].join(" ");
}
