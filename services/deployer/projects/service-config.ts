import type { ServiceConfig, ServiceSource } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { checkImage } from "../images/image-reference.ts";
import { checkGitSource, normalizeContextDir } from "../sources/git-source.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import { isDeployable, type ServiceSize } from "../terms/services.ts";
import type { StoredConfig } from "../terms/stored-config.ts";

/** Whether a configuration, or a change of one, has entries in `env`. */
export function hasEnv(config: Pick<StoredConfig, "env"> | undefined): boolean {
  return Object.keys(config?.env ?? {}).length > 0;
}

const DEFAULTS: StoredConfig = { port: 8080, replicas: 1, size: "nano", env: {}, autoApply: true };
const PATHS = ["dockerfile", "rootDirectory", "outputDirectory"] as const;
const COMMANDS = ["command", "installCommand", "buildCommand"] as const;
const REMOVABLE = ["healthCheckPath", ...COMMANDS, ...PATHS] as const;
const MEMBERS = ["port", "replicas", "size", "autoApply", "minReadySeconds", ...REMOVABLE] as const;
/** Set by the platform itself. */
const RESERVED = ["PORT", "PLATFORM_VARIABLES_REVISION"];
const MAX_ENV = 100;

/**
 * Returns the configuration after a change: absent members stay, an empty command, path or healthCheckPath removes it,
 * env is merged by name, and `unsetEnv` removes names. Throws 422 with a reason per member.
 */
export function mergeConfig(
  type: string,
  before: StoredConfig | undefined,
  change: ServiceConfig | undefined,
  unsetEnv: string[] = [],
): StoredConfig {
  if (!isDeployable(type)) return addonConfig(type, before, change);
  const config = { ...(before ?? DEFAULTS), env: { ...before?.env } };
  for (const member of MEMBERS)
    if (change?.[member] !== undefined) Object.assign(config, { [member]: change[member] });
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
  checkTexts(config);
  return config;
}

function addonConfig(type: string, before: StoredConfig | undefined, change: ServiceConfig | undefined) {
  const given = MEMBERS.find((member) => member !== "size" && change?.[member] !== undefined);
  const unsupported = given ?? (Object.keys(change?.env ?? {}).length > 0 ? "env" : undefined);
  if (unsupported)
    throw invalid(
      `config.${unsupported}`,
      "not_deployable",
      `A ${type} addon has no ${unsupported}; only size can be set.`,
    );
  return { size: (change?.size as ServiceSize | undefined) ?? before?.size ?? "nano" };
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
