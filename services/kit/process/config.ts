import { DEFAULT_TIMEOUTS, type Timeouts } from "../postgres/connection.ts";

/** One environment variable: its name, and how its text is parsed. `parse` throws an Error that completes "NAME …". */
export type Field<T> = { name: string; parse: (text: string | undefined) => T };

/** The values that `readConfig` returns for fields. */
export type ConfigOf<F> = { [K in keyof F]: F[K] extends Field<infer T> ? T : never };

export class ConfigError extends Error {
  override name = "ConfigError";
}

/**
 * Reads all fields from the environment. Throws one ConfigError that lists every mistake. Messages never contain a
 * value.
 */
export function readConfig<F extends Record<string, Field<unknown>>>(
  env: Record<string, string | undefined>,
  fields: F,
): ConfigOf<F> {
  const values: Record<string, unknown> = {};
  const mistakes: string[] = [];
  for (const [key, field] of Object.entries(fields)) {
    try {
      values[key] = field.parse(env[field.name] === "" ? undefined : env[field.name]);
    } catch (error) {
      mistakes.push(`${field.name} ${(error as Error).message}`);
    }
  }
  if (mistakes.length > 0)
    throw new ConfigError(`The configuration is not valid:\n  ${mistakes.join("\n  ")}`);
  return values as ConfigOf<F>;
}

function field<T>(name: string, fallback: T | undefined, parse: (text: string) => T): Field<T> {
  return {
    name,
    parse: (text) => {
      if (text !== undefined) return parse(text);
      if (fallback === undefined) throw new Error("is not set");
      return fallback;
    },
  };
}

/** A text. Without a fallback it is required. */
export function text(name: string, fallback?: string): Field<string> {
  return field(name, fallback, (value) => value);
}

/** A text that may be absent. */
export function optionalText(name: string): Field<string | undefined> {
  return { name, parse: (value) => value };
}

/** One of several words. */
export function choice<T extends string>(name: string, choices: readonly T[], fallback?: T): Field<T> {
  return field(name, fallback, (value) => {
    if (!choices.includes(value as T)) throw new Error(`must be one of ${choices.join(", ")}`);
    return value as T;
  });
}

/** A whole number within bounds. */
export function integer(
  name: string,
  bounds: { min?: number; max?: number; fallback?: number } = {},
): Field<number> {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, fallback } = bounds;
  return field(name, fallback, (value) => {
    const number = /^-?\d+$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= min && number <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return number;
  });
}

/** A port to listen on; 0 takes a free one. */
export function port(name: string, fallback?: number): Field<number> {
  return integer(name, { max: 65535, fallback });
}

/** A URL of one of the given schemes, without a slash at the end. */
export function url(name: string, schemes: readonly string[], fallback?: string): Field<string> {
  return field(name, fallback, (value) => {
    const parsed = URL.canParse(value) ? new URL(value) : undefined;
    if (!parsed || !schemes.includes(parsed.protocol.slice(0, -1)))
      throw new Error(`must be a URL that starts with ${schemes.map((s) => `${s}://`).join(" or ")}`);
    return value.replace(/\/$/, "");
  });
}

/** One URL as `url` takes it, or several, separated by commas. */
export function urls(name: string, schemes: readonly string[]): Field<string> {
  const one = url(name, schemes);
  return field(name, undefined, (value) => value.split(",").map(one.parse).join(","));
}

/** A URL that may be absent. */
export function optionalUrl(name: string, schemes: readonly string[]): Field<string | undefined> {
  return {
    name,
    parse: (value) => (value === undefined ? undefined : url(name, schemes).parse(value)),
  };
}

/** A text that may be absent, but must satisfy `holds`; `must` says how, after the name. */
export function checked(
  name: string,
  holds: (value: string) => boolean,
  must: string,
): Field<string | undefined> {
  return {
    name,
    parse: (value) => {
      if (value !== undefined && !holds(value)) throw new Error(must);
      return value;
    },
  };
}

/** Comma-separated base64 keys of 32 bytes. The first signs, all verify. */
export function keys(name: string): Field<Buffer[]> {
  return field(name, undefined, (value) =>
    value.split(",").map((part, index) => {
      const key = Buffer.from(part.trim(), "base64");
      if (key.length !== 32)
        throw new Error(`must contain base64 keys of 32 bytes; key ${index + 1} has ${key.length}`);
      return key;
    }),
  );
}

/** A database and its timeouts; 0 is without limit. */
export const databaseFields = {
  databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"]),
  lockTimeoutMs: integer("DATABASE_LOCK_TIMEOUT_MS", { fallback: DEFAULT_TIMEOUTS.lockTimeoutMs }),
  statementTimeoutMs: integer("DATABASE_STATEMENT_TIMEOUT_MS", {
    fallback: DEFAULT_TIMEOUTS.statementTimeoutMs,
  }),
  idleTransactionTimeoutMs: integer("DATABASE_IDLE_TRANSACTION_TIMEOUT_MS", {
    fallback: DEFAULT_TIMEOUTS.idleTransactionTimeoutMs,
  }),
};

/** The fields of every service. */
export const serviceFields = {
  ...databaseFields,
  natsUrl: urls("NATS_URL", ["nats", "tls"]),
  host: text("HOST", "127.0.0.1"),
  port: port("PORT", 0),
  grpcPort: port("GRPC_PORT", 0),
  internalKeys: keys("INTERNAL_KEYS"),
  logLevel: choice("LOG_LEVEL", ["debug", "info", "warn", "error", "silent"] as const, "info"),
  otlpUrl: optionalText("OTEL_EXPORTER_OTLP_ENDPOINT"),
  /** How long a process that is stopping still answers requests while it closes connections. */
  lingerMs: integer("LINGER_MS", { fallback: 0, max: 60_000 }),
};

export type ServiceConfig = ConfigOf<typeof serviceFields>;

/** The settings of telemetry, database and NATS. */
export type BackendsConfig = Timeouts &
  Pick<ServiceConfig, "databaseUrl" | "natsUrl" | "internalKeys" | "otlpUrl">;

/** A JSON value that satisfies `fits`; `what` describes such values in the message for others. */
export function json<T>(
  name: string,
  fallback: T,
  fits: (value: unknown) => boolean,
  what: string,
): Field<T> {
  return {
    name,
    parse(given) {
      if (given === undefined) return fallback;
      let value: unknown;
      try {
        value = JSON.parse(given);
      } catch {
        throw new Error("is not JSON");
      }
      if (!fits(value)) throw new Error(`must be JSON: ${what}`);
      return value as T;
    },
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value is an object whose members are all strings. */
export function isTexts(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((one) => typeof one === "string");
}

/** Whether a value is a list of ports. */
export function isPorts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((one) => Number.isInteger(one) && one >= 1 && one <= 65_535);
}

/** What access tokens of OAuth clients are for: the base URL of the API unless set. */
export const oauthResource = optionalUrl("OAUTH_RESOURCE", ["http", "https"]);

/**
 * Whether the embedded OAuth provider knows clients by the URLs of documents that describe them: identity takes them,
 * and the gateway's metadata says so.
 */
export const clientIdMetadata = choice("OAUTH_CLIENT_ID_METADATA", ["on", "off"] as const, "on");

/** Whether there is a console (docs/console.md#operators): the gateway serves it, and mails lead to its screens. */
export const consoleSwitch = choice("CONSOLE", ["on", "off"] as const, "on");

/** The path before all REST routes: "/v1" unless set, "" for "/". */
export const apiPrefix: Field<string> = {
  name: "API_PREFIX",
  parse: (value = "/v1") => {
    if (!/^(\/[A-Za-z0-9._-]+)*\/?$/.test(value) || !value.startsWith("/"))
      throw new Error("must be a path such as /v1");
    return value.replace(/\/$/, "");
  },
};
