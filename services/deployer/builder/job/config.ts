import { choice, type Field, optionalText, text } from "../../../kit/config.ts";
import type { BaseImages } from "./request.ts";

/** A JSON object of an environment variable; `check` says what is wrong with it. */
function json<T>(name: string, fallback: T, check: (value: unknown) => string | undefined): Field<T> {
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
      const wrong = check(value);
      if (wrong) throw new Error(wrong);
      return value as T;
    },
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const texts = (value: unknown) =>
  isObject(value) && Object.values(value).every((one) => typeof one === "string")
    ? undefined
    : "must be a JSON object of texts";

const publicImages: BaseImages = {
  node: "docker.io/library/node:24-bookworm-slim",
  python: "docker.io/library/python:3.13-slim-bookworm",
  go: "docker.io/library/golang:1.25-bookworm",
  static: "docker.io/library/node:24-bookworm-slim",
};

const resources = {
  requests: { cpu: "250m", memory: "512Mi", "ephemeral-storage": "1Gi" },
  limits: { cpu: "2", memory: "4Gi", "ephemeral-storage": "20Gi" },
};

/** How a cluster builds, and the registry that its images go to. */
export const jobBuilderFields = {
  buildNamespace: text("KUBE_BUILD_NAMESPACE"),
  builderImage: text("BUILDER_IMAGE"),
  /** Those that are left out are public images. */
  builderBaseImages: merged("BUILDER_BASE_IMAGES", publicImages),
  builderEnv: json<Record<string, string>>("BUILDER_ENV", {}, texts),
  builderExtraCaBundle: optionalText("BUILDER_EXTRA_CA_BUNDLE"),
  builderSeccompProfile: optionalText("BUILDER_SECCOMP_PROFILE"),
  builderUserNamespaces: choice("BUILDER_USER_NAMESPACES", ["true", "false"] as const, "false"),
  builderResources: json<typeof resources>("BUILDER_RESOURCES", resources, (value) =>
    isObject(value) && Object.values(value).every((part) => texts(part) === undefined)
      ? undefined
      : 'must be {"requests": {…}, "limits": {…}} of texts',
  ),
  /** `host[:port]/path`: where builds push to, and what nodes call the same place. */
  registryPush: text("REGISTRY_PUSH"),
  registryPull: text("REGISTRY_PULL"),
  registryInsecure: choice("REGISTRY_INSECURE", ["true", "false"] as const, "false"),
  /** Path of a docker configuration file with the credentials. */
  registryAuth: optionalText("REGISTRY_AUTH"),
  /** A Secret of the build namespace by which nodes pull the builder's image. */
  registryAuthSecret: optionalText("REGISTRY_AUTH_SECRET"),
};

function merged(name: string, fallback: BaseImages): Field<BaseImages> {
  const field = json<Partial<BaseImages>>(name, {}, texts);
  return { name, parse: (given) => ({ ...fallback, ...field.parse(given) }) };
}
