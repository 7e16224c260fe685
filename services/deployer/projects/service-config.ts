import type {
  Autoscaling,
  ServiceConfig,
  ServiceSource,
} from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { checkImage } from "../images/image-reference.ts";
import { checkGitSource, normalizeContextDir } from "../sources/git-source.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import { findScheduleProblem, isTimeZone } from "../terms/schedule.ts";
import { type AddonType, isDeployable, MOST_SERVERS, type ServiceSize } from "../terms/services.ts";
import type { StoredConfig } from "../terms/stored-config.ts";

/** Whether a configuration, or a change of one, has entries in `env`. */
export function hasEnv(config: Pick<StoredConfig, "env"> | undefined): boolean {
  return Object.keys(config?.env ?? {}).length > 0;
}

/** Nothing of a cron service runs besides its runs. */
const CRON_DEFAULTS: StoredConfig = { replicas: 0, size: "nano", env: {}, autoApply: true };
const DEFAULTS: StoredConfig = { port: 8080, replicas: 1, size: "nano", env: {}, autoApply: true };
const PATHS = ["dockerfile", "rootDirectory", "outputDirectory"] as const;
const COMMANDS = ["command", "installCommand", "buildCommand", "releaseCommand"] as const;
const REMOVABLE = ["healthCheckPath", "metricsPath", "schedule", ...COMMANDS, ...PATHS] as const;
const CRON_ONLY = ["schedule", "timeZone", "overlap", "runTimeoutSeconds"] as const;
const WEB_ONLY = ["public"] as const;
const ADDON_ONLY = ["version", "storageGib", "storageMaxGib", "pooler"] as const;
/** Of addons. */
const POSTGRES_ONLY = ["pooler"] as const;
const NOT_CRON = [
  "port",
  "replicas",
  "autoscaling",
  "healthCheckPath",
  "metricsPath",
  "minReadySeconds",
] as const;
const MEMBERS = [
  "port",
  "replicas",
  "size",
  "autoApply",
  "minReadySeconds",
  "builder",
  "timeZone",
  "overlap",
  "runTimeoutSeconds",
  ...WEB_ONLY,
  ...REMOVABLE,
] as const;
/** Set by the platform itself. */
const RESERVED = ["PORT", "PLATFORM_VARIABLES_REVISION"];
const MAX_ENV = 100;

/**
 * Returns the configuration after a change: absent members stay, an empty command, path or healthCheckPath, a
 * storageMaxGib of 0 and a pooler of false remove it, env is merged by name, and `unsetEnv` removes names. Throws 422 with
 * a reason per member.
 */
export function mergeConfig(
  type: string,
  before: StoredConfig | undefined,
  change: ServiceConfig | undefined,
  unsetEnv: string[] = [],
): StoredConfig {
  if (!isDeployable(type)) return addonConfig(type, before, change);
  refuseForType(type, change);
  const config = { ...(before ?? (type === "cron" ? CRON_DEFAULTS : DEFAULTS)), env: { ...before?.env } };
  for (const member of MEMBERS)
    if (change?.[member] !== undefined) Object.assign(config, { [member]: change[member] });
  // Not stored, so that a service from before it existed has not changed.
  if (config.public) delete config.public;
  for (const member of REMOVABLE) if (config[member] === "") delete config[member];
  for (const name of unsetEnv) delete config.env[name];
  for (const [name, value] of Object.entries(change?.env ?? {})) {
    if (RESERVED.includes(name))
      throw invalid(`config.env[${name}]`, "reserved_name", `${name} is set by the platform.`);
    if (value.includes("\0"))
      throw invalid(`config.env[${name}]`, "value_invalid", "A value cannot contain a NUL character.");
    config.env[name] = value;
  }
  if (Object.keys(config.env).length > MAX_ENV)
    throw invalid("config.env", "too_long", `At most ${MAX_ENV} names; use variables for more.`);
  if (change?.autoscaling) setAutoscaling(config, change.autoscaling);
  checkTexts(config);
  return config;
}

/** Throws 422 not_for_type for what services of a type do not have, and for a schedule that is none. */
function refuseForType(type: string, change: ServiceConfig | undefined): void {
  const ofAddons = ADDON_ONLY.find((member) => change?.[member] !== undefined);
  if (ofAddons)
    throw invalid(
      `config.${ofAddons}`,
      "not_for_type",
      `A ${type} service has no ${ofAddons}: only addons do.`,
    );
  const unaddressed = WEB_ONLY.find((member) => type !== "web" && change?.[member] !== undefined);
  if (unaddressed)
    throw invalid(
      `config.${unaddressed}`,
      "not_for_type",
      `A ${type} service has no ${unaddressed}: only web services answer requests.`,
    );
  const foreign = (type === "cron" ? NOT_CRON : CRON_ONLY).find(
    // What it shows may be sent back.
    (member) => change?.[member] !== undefined && !(member === "replicas" && change.replicas === 0),
  );
  if (foreign)
    throw invalid(
      `config.${foreign}`,
      "not_for_type",
      type === "cron"
        ? `A cron service has no ${foreign}: it keeps no replicas and has no address, and its start command runs at the times of config.schedule.`
        : `A ${type} service has no ${foreign}: only cron services run by a schedule.`,
    );
  const problem = change?.schedule ? findScheduleProblem(change.schedule) : undefined;
  if (problem) throw invalid("config.schedule", "invalid_schedule", problem);
  if (change?.timeZone !== undefined && !isTimeZone(change.timeZone))
    throw invalid(
      "config.timeZone",
      "invalid_time_zone",
      "There is no such time zone. Send a name of IANA's, such as Europe/Berlin, or UTC.",
    );
}

const AUTOSCALING = { min: 1, targetCpuPercent: 70 };

/** Changes how a service is scaled: absent members stay, and no member at all turns it off. */
function setAutoscaling(config: StoredConfig, change: Autoscaling): void {
  const { min, max, targetCpuPercent } = change;
  const given = { ...(min && { min }), ...(max && { max }), ...(targetCpuPercent && { targetCpuPercent }) };
  if (Object.keys(given).length === 0) {
    delete config.autoscaling;
    return;
  }
  const next = { ...AUTOSCALING, ...config.autoscaling, ...given };
  if (next.max === undefined)
    throw invalid(
      "config.autoscaling.max",
      "required",
      "Set max, the most replicas that the service may have.",
    );
  if (next.min > next.max)
    throw invalid(
      `config.autoscaling.${min === undefined ? "max" : "min"}`,
      "out_of_range",
      `min is ${next.min}, and must not be more than max, which is ${next.max}.`,
    );
  config.autoscaling = { ...next, max: next.max };
}

const words = new Intl.ListFormat("en-GB");

function addonConfig(type: string, before: StoredConfig | undefined, change: ServiceConfig | undefined) {
  const ofPostgres = (member: string) => POSTGRES_ONLY.some((one) => one === member);
  const own: string[] = [
    ...["size", "replicas"],
    ...ADDON_ONLY.filter((member) => type === "postgres" || !ofPostgres(member)),
  ];
  const given = [...MEMBERS, "autoscaling" as const, "pooler" as const].find(
    (member) => !own.includes(member) && change?.[member] !== undefined,
  );
  const unsupported = given ?? (Object.keys(change?.env ?? {}).length > 0 ? "env" : undefined);
  if (unsupported)
    throw invalid(
      `config.${unsupported}`,
      "not_deployable",
      `A ${type} addon has no ${unsupported}; only ${words.format(own)} can be set.`,
    );
  const replicas = change?.replicas ?? before?.replicas;
  const most = MOST_SERVERS[type as AddonType];
  if (replicas !== undefined && (replicas < 1 || replicas > most))
    throw invalid(
      "config.replicas",
      "out_of_range",
      `A ${type} addon has 1 to ${most} servers: one that takes writes, and standbys.`,
    );
  const size = (change?.size as ServiceSize | undefined) ?? before?.size ?? "nano";
  const version = change?.version ?? before?.version;
  const storageGib = change?.storageGib ?? before?.storageGib;
  const storageMaxGib = (change?.storageMaxGib ?? before?.storageMaxGib) || undefined;
  const config = {
    size,
    ...(replicas !== undefined && { replicas }),
    ...(version !== undefined && { version }),
    ...(storageGib !== undefined && { storageGib }),
    ...(storageMaxGib !== undefined && { storageMaxGib }),
    ...((change?.pooler ?? before?.pooler) && { pooler: true }),
  };
  requireGrowthUpwards(config, change?.storageMaxGib === undefined ? "storageGib" : "storageMaxGib");
  return config;
}

/** Throws 422 for a volume that is to grow by itself to less than it is to have; `given`: which of both was asked for. */
export function requireGrowthUpwards(
  { storageGib = 0, storageMaxGib = storageGib }: StoredConfig,
  given: "storageGib" | "storageMaxGib",
): void {
  if (storageMaxGib < storageGib)
    throw invalid(
      `config.${given}`,
      "out_of_range",
      `storageMaxGib is ${storageMaxGib}, and must not be less than storageGib, which is ${storageGib}.`,
    );
}

function checkTexts(config: StoredConfig): void {
  for (const member of COMMANDS)
    if (config[member]?.includes("\0"))
      throw invalid(`config.${member}`, "value_invalid", "A command cannot contain a NUL character.");
  for (const member of PATHS) {
    const path = config[member] ?? "";
    if (path.startsWith("/") || path.split("/").includes(".."))
      throw invalid(
        `config.${member}`,
        "invalid_path",
        `config.${member} must be a relative path inside the source.`,
      );
    if (/\p{Cc}/u.test(path))
      throw invalid(`config.${member}`, "invalid_path", "A path cannot contain control characters.");
  }
}

/** Throws 422 autoscaling_needs_cluster for a change that turns autoscaling on. */
export function refuseAutoscaling(change: ServiceConfig | undefined): void {
  const { min, max, targetCpuPercent } = change?.autoscaling ?? {};
  if (min === undefined && max === undefined && targetCpuPercent === undefined) return;
  throw invalid(
    "config.autoscaling",
    "autoscaling_needs_cluster",
    "Autoscaling needs a cluster: this Berth runs services as processes on one machine. Set config.replicas, or install Berth on Kubernetes.",
  );
}

/**
 * Returns the source to store. Throws 422 invalid_source for two sources, for an addon with a source and for a
 * malformed git source, and 422 invalid_image for a malformed image reference.
 */
export function checkSource(type: string, source: ServiceSource | undefined): StoredSource {
  const { image, git } = source ?? {};
  if (image !== undefined && git)
    throw invalid("source", "invalid_source", "Send an image or a git source, not both.");
  if (!isDeployable(type) && (image !== undefined || git))
    throw invalid("source", "invalid_source", `A ${type} addon has no source.`);
  if (git) {
    const { repository, branch, contextDir = "", tokenVariable = "" } = git;
    const given = { repository, branch, contextDir, ...(tokenVariable && { tokenVariable }) };
    const problem = checkGitSource(given);
    if (problem) {
      const message = `${problem.member} ${problem.message}.`;
      throw invalid(`source.git.${problem.member}`, "invalid_source", message);
    }
    const folder = normalizeContextDir(contextDir);
    const optional = { ...(folder && { contextDir: folder }), ...(tokenVariable && { tokenVariable }) };
    return { git: { repository, branch, ...optional } };
  }
  if (image === undefined) return {};
  checkImage("source.image", image);
  return { image };
}
