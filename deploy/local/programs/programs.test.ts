import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { makeToken } from "../../../services/kit/crypto/bearer-token.ts";
import { type Field, readConfig } from "../../../services/kit/process/config.ts";
import { environmentOf, type PlatformContext, programs } from "./programs.ts";

afterEach(() => vi.unstubAllEnvs());

const key = Buffer.alloc(32).toString("base64");
const context = {
  secrets: {
    ...{ internalKeys: key, encryptionKeys: `k1:${key}`, uploadKeys: key, secretKeys: key },
    ...{ ownerToken: makeToken("pat"), ownerPassword: "password of a test", databasePasswords: {} },
  },
  ports: Object.fromEntries(
    [{ name: "router" }, ...programs].flatMap(({ name }, at) => [
      [name, 4_100 + at],
      [`${name}Grpc`, 4_200 + at],
    ]),
  ),
  origin: "http://127.0.0.1:4000",
  listen: "127.0.0.1",
  natsUrl: "nats://127.0.0.1:4222",
  databaseUrl: (database: string, role: string) => `postgres://${role}@127.0.0.1/${database}`,
  mail: { url: "smtp://127.0.0.1:2525", from: "berth@example.com" },
  payments: { key: "sk_test_a", webhookSecrets: "whsec_a", url: "http://127.0.0.1:9", installation: "local" },
  walls: { missing: undefined, hidden: [] },
  groups: { folder: undefined },
  ...{ dataDir: "/data", deployerDir: "/data/deployer", appsDir: "/apps", programsDir: "/programs" },
} as unknown as PlatformContext;

async function configOf(name: string): Promise<Record<string, unknown>> {
  const program = programs.find((one) => one.name === name)!;
  const { fields } = (await import(join(import.meta.dirname, "../../..", program.folder, "config.ts"))) as {
    fields: Record<string, Field<unknown>>;
  };
  return readConfig(environmentOf(program, context), fields);
}

test.each([
  ["gateway", "CONSOLE", "off", { console: "off" }],
  ["notifications", "CONSOLE", "off", { console: "off" }],
  ["gateway", "METRICS_PORT", "9090", { metricsPort: 9090 }],
  ["gateway", "OAUTH_CLIENT_ID_METADATA", "off", { clientIdMetadata: "off" }],
  ["identity", "OAUTH_CLIENT_ID_METADATA", "off", { clientIdMetadata: "off" }],
  ["identity", "OAUTH_REDIRECT_HOSTS", "app.example.com", { redirectHosts: ["app.example.com"] }],
  ["identity", "OAUTH_ALLOW_CUSTOM_SCHEMES", "off", { customSchemes: "off" }],
  ["deployer", "BUILDS_AT_ONCE", "5", { buildsAtOnce: 5 }],
  ["deployer", "ACCOUNT_REGISTRIES", "off", { accountRegistries: "off" }],
  ["deployer", "PLAN_SIZES", '{"free":"nano"}', { planSizes: { free: "nano" } }],
  ["deployer", "PLAN_STORAGE", '{"free":1}', { planStorage: { free: 1 } }],
])("the %s of one machine heeds %s in the environment of npm start", async (name, variable, value, read) => {
  vi.stubEnv(variable, value);
  expect(await configOf(name)).toMatchObject(read);
});

test("other variables of the machine do not reach programs", () => {
  vi.stubEnv("DATABASE_URL", "postgres://elsewhere");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  for (const program of programs) {
    const environment = environmentOf(program, context);
    expect(environment.AWS_SECRET_ACCESS_KEY).toBeUndefined();
    expect(environment.DATABASE_URL).toContain("127.0.0.1");
  }
});
