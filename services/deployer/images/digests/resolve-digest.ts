import { LRUCache } from "lru-cache";
import type { Logger } from "../../../kit/log.ts";
import { choice } from "../../../kit/process/config.ts";
import type { AllowedRegistries } from "../allowed-registries.ts";
import {
  DOCKER_HUB,
  type ImageReference,
  MAX_IMAGE_LENGTH,
  parseImageReference,
} from "../image-reference.ts";
import { basicAuth } from "../registry-auth.ts";
import { askRegistry, type RegistryAnswer } from "./ask-registry.ts";

/** An image with the digest that its tag has now; or a sentence that says that there is none, or that nobody knows. */
export type Resolution = { image: string } | { missing: string } | { unknown: string };

/** How deployed images get the digests of their tags. */
export type ImageDigests = {
  /** Whether an image is deployed only by its digest. */
  required: boolean;
  /**
   * Returns undefined when there is nothing to resolve. Takes a few seconds at most. `loginAt` returns the account's own
   * `Authorization` for a registry.
   */
  resolve: (image: string, loginAt?: AccountLogin) => Promise<Resolution | undefined>;
};

type AccountLogin = (host: string) => Promise<string | undefined> | undefined;

/** Whether tags of deployed images are resolved: where that is possible, always, or never. */
export const imageDigests = choice("IMAGE_DIGESTS", ["prefer", "require", "off"] as const, "prefer");

export type DigestOptions = {
  /** The platform's registry, under the names by which builds and nodes know it. */
  push: string;
  pull: string;
  /** Whether that one speaks plain HTTP. */
  insecure: boolean;
  /** Docker configurations. */
  logins: (string | undefined)[];
  allowed: AllowedRegistries;
  log: Logger;
};

const ASK_MS = 4_000;
/** For how long a registry that could not be reached is not asked again: each deployment would wait for it. */
const UNREACHABLE_MS = 60_000;
const HUB_API = "registry-1.docker.io";
const HUB_LOGIN = "index.docker.io";
const ACCEPT = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");
const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** Returns a function that asks registries for the digests of tags (docs/images.md#digests). */
export function createDigestResolver({ push, pull, insecure, logins, allowed, log }: DigestOptions) {
  const [pushHost, pullHost] = [hostOf(push), hostOf(pull)];
  const named = new Set([pushHost, ...allowed.map((entry) => entry.split("/")[0]!)]);
  const unreachable = new LRUCache<string, true>({ max: 1_000, ttl: UNREACHABLE_MS });

  function loginAt(host: string): string | undefined {
    for (const login of logins) {
      const found = basicAuth(login, host);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Returns how to ask a registry for one image. */
  function askerFor({ registry, repository, tag = "latest" }: ImageReference, own: string | undefined) {
    const host = registry === pullHost ? pushHost : registry;
    const isHub = host === DOCKER_HUB;
    const scheme = insecure && host === pushHost ? "http" : "https";
    const url = new URL(`${scheme}://${isHub ? HUB_API : host}/v2/${repository}/manifests/${tag}`);
    const operators = loginAt(host) ?? (isHub ? loginAt(HUB_LOGIN) : undefined);
    const authorization = own ?? operators;
    // A login of an account makes no registry one that the operator named.
    const trusted = named.has(host) || operators !== undefined;
    const asking = { accept: ACCEPT, authorization, trusted, signal: AbortSignal.timeout(ASK_MS) };
    return (method: "HEAD" | "GET") => askRegistry(method, url, `repository:${repository}:pull`, asking);
  }

  async function ask(text: string, image: ImageReference, own: string | undefined): Promise<Resolution> {
    const send = askerFor(image, own);
    const { status, headers } = await send("HEAD");
    const digest = String(headers["docker-content-digest"] ?? "");
    if (status === 200 && DIGEST.test(digest)) {
      const pinned = `${text}@${digest}`;
      return pinned.length > MAX_IMAGE_LENGTH
        ? { unknown: "The image's name is too long to be followed by a digest." }
        : { image: pinned };
    }
    // Only the answer to a GET says what it is that was not found.
    if (status === 404 && isManifestUnknown(await send("GET")))
      return {
        missing: `The registry ${image.registry} has no image ${text}. Push it, or deploy one that is there.`,
      };
    return {
      unknown: `The registry ${image.registry} does not tell the image's digest (it answers ${status}).`,
    };
  }

  return async (text: string, ownLogin?: AccountLogin): Promise<Resolution | undefined> => {
    const image = parseImageReference(text);
    if ("problem" in image || image.digest !== undefined) return undefined;
    const { registry } = image;
    const unknown = `The registry ${registry} could not be asked for the image's digest.`;
    if (unreachable.has(registry)) return { unknown };
    return ask(text, image, await ownLogin?.(registry)).catch((err) => {
      log.info({ err, registry }, "a registry could not be asked for a digest");
      unreachable.set(registry, true);
      return { unknown };
    });
  };
}

/** Returns the host of a registry's path in the form that parsed references have. */
function hostOf(path: string): string {
  const found = parseImageReference(`${path}/any`);
  if ("problem" in found) throw new Error(`${path} is not a registry: ${found.problem}`);
  return found.registry;
}

function isManifestUnknown({ status, body }: RegistryAnswer): boolean {
  return status === 404 && /"code"\s*:\s*"MANIFEST_UNKNOWN"/.test(body);
}
