import {
  type ConfigOf,
  checked,
  integer,
  isTexts,
  json,
  optionalText,
} from "../../../../kit/process/config.ts";
import type { LokiLabels, LokiOptions } from "./loki.ts";

/** The names under which a collector hands in a pod's own labels unless it renames them. */
const LABELS: LokiLabels = {
  namespace: "namespace",
  pod: "pod",
  container: "container",
  service: "berth_dev_service",
  version: "berth_dev_version",
  stream: "stream",
};

/** The environment variables that name a Loki. */
export const lokiFields = {
  lokiUrl: checked(
    "LOKI_URL",
    isServer,
    "must be a URL that starts with http:// or https:// and has no credentials: those are of their own",
  ),
  lokiTenant: optionalText("LOKI_TENANT"),
  /** With a password, or a token alone. */
  lokiUsername: optionalText("LOKI_USERNAME"),
  lokiPassword: optionalText("LOKI_PASSWORD"),
  lokiToken: optionalText("LOKI_TOKEN"),
  lokiDays: integer("LOKI_DAYS", { min: 1, max: 3_650, fallback: 30 }),
  /** Those that are not named as in `LABELS`. */
  lokiLabels: json(
    "LOKI_LABELS",
    {} as Partial<LokiLabels>,
    isLabels,
    `an object of names of labels, by ${Object.keys(LABELS).join(", ")}`,
  ),
};

/** Returns how Loki is reached; undefined without one. */
export function lokiOptions(config: ConfigOf<typeof lokiFields>): LokiOptions | undefined {
  const { lokiUrl: url, lokiTenant: tenant, lokiUsername: username, lokiPassword, lokiToken: token } = config;
  if (!url) return undefined;
  const basic = username && `Basic ${Buffer.from(`${username}:${lokiPassword ?? ""}`).toString("base64")}`;
  return {
    url: url.replace(/\/$/, ""),
    tenant,
    authorization: token ? `Bearer ${token}` : basic,
    days: config.lokiDays,
    labels: { ...LABELS, ...config.lokiLabels },
  };
}

function isServer(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  return /^https?:$/.test(protocol) && !username && !password;
}

function isLabels(value: unknown): boolean {
  return (
    isTexts(value) &&
    Object.entries(value).every(([key, name]) => key in LABELS && /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name))
  );
}
