import type { ServiceConfig, ServiceSource } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { invalid } from "../../kit/rpc/errors.ts";
import { checkGitSource, type GitSource, normalizeContextDir } from "../builder/source/git-source.ts";
import { type ImageReference, parseImageReference } from "../images/image-reference.ts";
import type { ServiceSize, ServiceType } from "../runtime/port.ts";

/** A service's configuration as it is stored: defaults filled in, named as ServiceConfig's members. */
export type StoredConfig = {
  port?: number;
  command?: string;
  replicas?: number;
  size: ServiceSize;
  healthCheckPath?: string;
  env?: Record<string, string>;
  autoApply?: boolean;
  minReadySeconds?: number;
  dockerfile?: string;
};

export type StoredSource = {
  image?: string;
  git?: GitSource;
};

/** web and worker run deployments; the others are managed addons. */
export function isDeployable(type: string): type is ServiceType {
  return type === "web" || type === "worker";
}

const DEFAULTS: StoredConfig = { port: 8080, replicas: 1, size: "nano", env: {}, autoApply: true };
const REMOVABLE = ["command", "healthCheckPath", "dockerfile"] as const;
const MEMBERS = ["port", "replicas", "size", "autoApply", "minReadySeconds", ...REMOVABLE] as const;
/** The platform sets these itself. */
const RESERVED = ["PORT", "PLATFORM_VARIABLES_REVISION"];
const MAX_ENV = 100;

/**
 * The configuration after a change: members that are not given stay, an empty command, healthCheckPath or
 * dockerfile removes it, env is merged by name and `unsetEnv` removes names. 422 as the proto says.
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
      throw invalid(`config.env[${name}]`, "value_invalid", "A value cannot hold a NUL character.");
    config.env[name] = value;
  }
  if (Object.keys(config.env).length > MAX_ENV)
    throw invalid("config.env", "too_long", `At most ${MAX_ENV} names; use variables for more.`);
  checkTexts(config);
  return config;
}

function addonConfig(type: string, before: StoredConfig | undefined, change: ServiceConfig | undefined) {
  const other = MEMBERS.find((member) => member !== "size" && change?.[member] !== undefined);
  const foreign = other ?? (Object.keys(change?.env ?? {}).length > 0 ? "env" : undefined);
  if (foreign)
    throw invalid(
      `config.${foreign}`,
      "not_deployable",
      `A ${type} addon has no ${foreign}; only size can be set.`,
    );
  return { size: (change?.size as ServiceSize | undefined) ?? before?.size ?? "nano" };
}

function checkTexts(config: StoredConfig): void {
  if (config.command?.includes("\0"))
    throw invalid("config.command", "value_invalid", "A command cannot hold a NUL character.");
  const { dockerfile } = config;
  if (dockerfile && (dockerfile.startsWith("/") || dockerfile.split("/").includes("..")))
    throw invalid(
      "config.dockerfile",
      "invalid_path",
      "config.dockerfile must be a path inside the archive.",
    );
  if (dockerfile && /\p{Cc}/u.test(dockerfile))
    throw invalid("config.dockerfile", "invalid_path", "A path cannot hold control characters.");
}

/** The reference in a request's member; 422 invalid_image for what no registry can have. */
export function checkImage(path: string, image: string): ImageReference {
  const found = parseImageReference(image);
  if ("problem" in found) throw invalid(path, "invalid_image", found.problem);
  return found;
}

/**
 * The source to store; 422 invalid_source for two sources, for any on an addon, and for what git cannot take,
 * invalid_image for what is no image reference.
 */
export function checkSource(type: string, source: ServiceSource | undefined): StoredSource {
  const { image, git } = source ?? {};
  if (image !== undefined && git)
    throw invalid("source", "invalid_source", "Give an image or a git source, not both.");
  if (!isDeployable(type) && (image !== undefined || git))
    throw invalid("source", "invalid_source", `A ${type} addon has no source.`);
  if (git) {
    const { repository, branch, contextDir = "", tokenVariable = "" } = git;
    const given = { repository, branch, contextDir, ...(tokenVariable && { tokenVariable }) };
    const problem = checkGitSource(given);
    if (problem)
      throw invalid(
        `source.git.${problem.member}`,
        "invalid_source",
        `${problem.member} ${problem.message}.`,
      );
    const folder = normalizeContextDir(contextDir);
    return {
      git: {
        repository,
        branch,
        ...(folder && { contextDir: folder }),
        ...(tokenVariable && { tokenVariable }),
      },
    };
  }
  if (image === undefined) return {};
  checkImage("source.image", image);
  return { image };
}
