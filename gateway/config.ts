import { isIP } from "node:net";
import { POOL_SIZE } from "../services/kit/postgres/connection.ts";
import {
  apiPrefix,
  type ConfigOf,
  choice,
  clientIdMetadata,
  consoleSwitch,
  databaseFields,
  type Field,
  integer,
  oauthResource,
  optionalUrl,
  port,
  serviceFields,
  url,
} from "../services/kit/process/config.ts";
import { type Upstream, upstreamNames } from "./upstreams.ts";

/** The most connections to the database. It sends no events, so it has a pool alone. */
export const connections = POOL_SIZE;

const web = ["http", "https"] as const;

const NAMED_NETWORKS = ["loopback", "linklocal", "uniquelocal"];

/** The proxies that may name the client in X-Forwarded-For: addresses, networks, or these names of networks. */
const trustProxy: Field<string[] | undefined> = {
  name: "TRUST_PROXY",
  parse: (value) => {
    const networks = value?.split(",").map((part) => part.trim());
    const known = (network: string) =>
      NAMED_NETWORKS.includes(network) ||
      (/^[^/]+(\/\d{1,3})?$/.test(network) && isIP(network.split("/")[0]!));
    if (networks && !networks.every(known))
      throw new Error(`must be the addresses or networks of proxies, or ${NAMED_NETWORKS.join(", ")}`);
    return networks;
  },
};

const metricsPort: Field<number | undefined> = {
  name: "METRICS_PORT",
  parse: (value) => (value === undefined ? undefined : port("METRICS_PORT").parse(value)),
};

const oauthUrl: Field<string | undefined> = {
  name: "OAUTH_URL",
  parse: (value) => {
    const found = optionalUrl("OAUTH_URL", web).parse(value);
    if (found !== undefined && found !== new URL(found).origin)
      throw new Error("must be an origin, such as http://hydra:4444, without a path");
    return found;
  },
};

const upstreamUrls = Object.fromEntries(
  upstreamNames.map((name) => [`${name}Url`, url(`${name.toUpperCase()}_URL`, web)]),
) as Record<`${Upstream}Url`, Field<string>>;

export const fields = {
  host: serviceFields.host,
  port: port("PORT", 0),
  /** The port for /metrics, which the public one never serves; 0 for any free port, none unless set. */
  metricsPort,
  ...databaseFields,
  natsUrl: serviceFields.natsUrl,
  internalKeys: serviceFields.internalKeys,
  logLevel: serviceFields.logLevel,
  otlpUrl: serviceFields.otlpUrl,
  lingerMs: serviceFields.lingerMs,
  /** The origin at which clients reach the gateway; its own address unless set. */
  publicOrigin: optionalUrl("PUBLIC_ORIGIN", web),
  apiPrefix,
  trustProxy,
  ...upstreamUrls,
  /** The origin of the OAuth provider's public endpoints, when it is not the embedded one in identity. */
  oauthUrl,
  oauthResource,
  clientIdMetadata,
  /** `off` serves no console, and sessions of browsers are for the other pages alone. */
  console: consoleSwitch,
  /** Where the console uploads archives to, unless that is the gateway: the object store, as browsers reach it. */
  uploadUrl: optionalUrl("UPLOAD_URL", web),
  /** `off` lifts all limits, for benches and tests. */
  rateLimits: choice("RATE_LIMITS", ["on", "off"] as const, "on"),
  /** Requests a minute per user, and per network on the public routes of one purpose; 0 is no limit. */
  rateReads: integer("RATE_LIMIT_READS", { fallback: 600 }),
  rateWrites: integer("RATE_LIMIT_WRITES", { fallback: 120 }),
  rateReveals: integer("RATE_LIMIT_REVEALS", { fallback: 30 }),
  rateSetReveals: integer("RATE_LIMIT_SET_REVEALS", { fallback: 10 }),
  rateBatches: integer("RATE_LIMIT_BATCHES", { fallback: 30 }),
  ratePublic: integer("RATE_LIMIT_PUBLIC", { fallback: 60 }),
  rateNewTokens: integer("RATE_LIMIT_NEW_TOKENS", { fallback: 30 }),
  /** How many users' limits, of requests and of streams, the members of an account have together. */
  accountTimes: integer("RATE_LIMIT_ACCOUNT_TIMES", { fallback: 10 }),
  /** Of OAuth: what a user answers to applications, token requests, those that fail, and registrations a minute and a day. */
  rateDecisions: integer("RATE_LIMIT_DECISIONS", { fallback: 30 }),
  rateTokens: integer("RATE_LIMIT_TOKENS", { fallback: 120 }),
  rateTokenFailures: integer("RATE_LIMIT_TOKEN_FAILURES", { fallback: 20 }),
  rateRegistrations: integer("RATE_LIMIT_REGISTRATIONS", { fallback: 20 }),
  rateRegistrationsDaily: integer("RATE_LIMIT_REGISTRATIONS_DAILY", { fallback: 200 }),
  /** How long the body of a request may take to arrive. An upload may take longer. */
  bodySeconds: integer("REQUEST_BODY_SECONDS", { fallback: 30, min: 1, max: 300 }),
  /** How many streams a user may have open; 0 is no limit. */
  streamsPerCaller: integer("STREAMS_PER_CALLER", { fallback: 5 }),
  /** How often an open stream sends a comment and its caller is revalidated. */
  heartbeatSeconds: integer("STREAM_HEARTBEAT_SECONDS", { fallback: 15, min: 1, max: 120 }),
};

export type GatewayConfig = ConfigOf<typeof fields>;
