import {
  type ConfigOf,
  choice,
  type Field,
  isObject,
  isTexts,
  json,
  optionalText,
  text,
} from "../../../kit/process/config.ts";
import { pullKeys } from "../../images/pulls/logins.ts";
import { onArchitecture, type placementFields } from "../../kube/pods/placement.ts";
import type { JobBuilderOptions } from "./adapter.ts";
import type { BaseImages } from "./job-request.ts";

const TEXTS = "an object of texts";

const PUBLIC_IMAGES: BaseImages = {
  node: "docker.io/library/node:24-bookworm-slim",
  python: "docker.io/library/python:3.13-slim-bookworm",
  go: "docker.io/library/golang:1.25-bookworm",
  static: "docker.io/library/node:24-bookworm-slim",
};

const resources = {
  requests: { cpu: "250m", memory: "512Mi", "ephemeral-storage": "1Gi" },
  limits: { cpu: "2", memory: "4Gi", "ephemeral-storage": "20Gi" },
};

/** How a cluster builds, and the registry of its images. */
export const jobBuilderFields = {
  buildNamespace: text("KUBE_BUILD_NAMESPACE"),
  builderImage: text("BUILDER_IMAGE"),
  /** Images that are not set default to public ones. */
  builderBaseImages: merged("BUILDER_BASE_IMAGES", PUBLIC_IMAGES),
  /** An image with Cloud Native Buildpacks, for sources that nothing else builds; there are none without it. */
  buildpacksBuilder: optionalText("BUILDPACKS_BUILDER"),
  /** The image that their apps run in, in place of the one that the builder names. */
  buildpacksRunImage: optionalText("BUILDPACKS_RUN_IMAGE"),
  builderEnv: json<Record<string, string>>("BUILDER_ENV", {}, isTexts, TEXTS),
  builderExtraCaBundle: optionalText("BUILDER_EXTRA_CA_BUNDLE"),
  builderSeccompProfile: optionalText("BUILDER_SECCOMP_PROFILE"),
  /** `unconfined`, or a profile on the nodes. */
  builderAppArmorProfile: optionalText("BUILDER_APPARMOR_PROFILE"),
  builderUserNamespaces: choice("BUILDER_USER_NAMESPACES", ["true", "false"] as const, "false"),
  builderResources: json<typeof resources>(
    "BUILDER_RESOURCES",
    resources,
    (value) => isObject(value) && Object.values(value).every(isTexts),
    '{"requests": {…}, "limits": {…}} of texts',
  ),
  /** `host[:port]/path`, as builds push to it and as nodes pull from it. */
  registryPush: text("REGISTRY_PUSH"),
  registryPull: text("REGISTRY_PULL"),
  registryInsecure: choice("REGISTRY_INSECURE", ["true", "false"] as const, "false"),
  /** Path of a docker configuration file with the credentials. */
  registryAuth: optionalText("REGISTRY_AUTH"),
  /** Path of another one, with which nodes pull; the same unless set. */
  registryPullAuth: optionalText("REGISTRY_PULL_AUTH"),
  /** Nodes pull with a login of each account instead, which is made of these and pulls from the account's own path. */
  registryPullKeys: pullKeys,
  /** Without keys, the accounts' logins are made of the login that pushes: it is the bundled registry's. */
  registryAccountPulls: choice("REGISTRY_ACCOUNT_PULLS", ["true", "false"] as const, "false"),
  /** A Secret of the build namespace with which nodes pull the builder's image. */
  registryAuthSecret: optionalText("REGISTRY_AUTH_SECRET"),
};

/** Returns how a cluster builds, from the deployer's configuration. */
export function jobBuilderOptions(
  config: ConfigOf<typeof jobBuilderFields & typeof placementFields>,
): Omit<JobBuilderOptions, "kube" | "store" | "log"> {
  const { registryAuth, buildpacksBuilder: builder, buildpacksRunImage: runImage } = config;
  return {
    namespace: config.buildNamespace,
    image: config.builderImage,
    seccompProfile: config.builderSeccompProfile,
    appArmorProfile: config.builderAppArmorProfile,
    userNamespaces: config.builderUserNamespaces === "true",
    resources: config.builderResources,
    extraCaBundle: config.builderExtraCaBundle,
    pullSecret: config.registryAuthSecret,
    placement: onArchitecture(config.builderPlacement, config.nodeArchitecture),
    baseImages: config.builderBaseImages,
    ...(builder && { buildpacks: { builder, ...(runImage && { runImage }) } }),
    variables: config.builderEnv,
    registry: {
      push: config.registryPush,
      pull: config.registryPull,
      insecure: config.registryInsecure === "true",
      pathPerAccount: config.registryPullKeys !== undefined || config.registryAccountPulls === "true",
      ...(registryAuth && { authFile: registryAuth }),
    },
  };
}

function merged(name: string, fallback: BaseImages): Field<BaseImages> {
  const field = json<Partial<BaseImages>>(name, {}, isTexts, TEXTS);
  return { name, parse: (given) => ({ ...fallback, ...field.parse(given) }) };
}
