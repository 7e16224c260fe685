import { invalid } from "../../kit/rpc/refusals.ts";

/** A parsed image reference in comparable form: `nginx` is `docker.io/library/nginx`. */
export type ImageReference = {
  /** Host in lower case, with its port unless that is 443. */
  registry: string;
  /** Path within the registry. */
  repository: string;
  tag?: string;
  digest?: string;
};

export const MAX_IMAGE_LENGTH = 512;
export const DOCKER_HUB = "docker.io";
const HUB_NAMES = ["index.docker.io", "registry-1.docker.io"];
const EXAMPLE = "such as nginx:1.27 or registry.example.com:5000/shop/web:1.4";

const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])$/;
const COMPONENT = /^[a-z0-9]+(?:(?:__|[._]|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const IMAGE_ID = /^sha\d+:/i;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** Returns a request member's image reference. Throws 422 invalid_image when it is malformed. */
export function checkImage(member: string, text: string): ImageReference {
  const found = parseImageReference(text);
  if ("problem" in found) throw invalid(member, "invalid_image", found.problem);
  return found;
}

/**
 * Parses an image reference, `[host[:port]/]path[:tag][@sha256:…]`, as registries and their clients do. Returns a
 * sentence that says what to change when it is malformed. Accepts printable ASCII only.
 */
export function parseImageReference(text: string): ImageReference | { problem: string } {
  if (text.length > MAX_IMAGE_LENGTH) return problem(`can have at most ${MAX_IMAGE_LENGTH} characters`);
  if (/[^!-~]/.test(text)) return problem("cannot contain spaces, control characters or non-ASCII letters");
  if (text.includes("://")) return problem("has no scheme such as https://");
  // Nodes would look for an image of this id, or of one that begins so, among all that they hold, whoever pulled it.
  if (IMAGE_ID.test(text)) return problem("names a repository: an image's id, sha256:…, is not enough");
  const [named, digest, ...more] = text.split("@");
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest)))
    return problem("can have only a digest after its @: sha256: and 64 digits of 0-9 and a-f");
  const { name, tag } = cutTag(named!);
  if (tag !== undefined && !TAG.test(tag))
    return problem(
      "must have a tag after its last colon: 1-128 letters, digits, _, . and -, not beginning with . or -",
    );
  const { host, path } = cutHost(name);
  const registry = host === undefined ? DOCKER_HUB : registryOf(host);
  if (!registry) return problem("must begin with a valid host, and a port of 1-65535 if it has one");
  const components = path.split("/");
  if (!components.every((component) => COMPONENT.test(component)))
    return problem("must have a path of lower case a-z and 0-9, with single . _ - or / between them");
  const official = registry === DOCKER_HUB && components.length === 1;
  return {
    registry,
    repository: official ? `library/${path}` : path,
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && { digest }),
  };
}

/**
 * Returns a reference with its host as logins have it, by which nodes find them: `GHCR.io:443/web` is `ghcr.io/web`. All else
 * stays as it is written, and so does a host that is none without its capitals or its port.
 */
export function withHostOfLogins(text: string): string {
  const { host } = cutHost(text);
  const found = parseImageReference(text);
  if (host === undefined || "problem" in found) return text;
  const renamed = `${found.registry}${text.slice(host.length)}`;
  const again = parseImageReference(renamed);
  return "registry" in again && again.registry === found.registry ? renamed : text;
}

function problem(what: string) {
  return { problem: `An image reference, ${EXAMPLE}, ${what}.` };
}

function cutTag(named: string): { name: string; tag?: string } {
  const colon = named.lastIndexOf(":");
  if (colon < 0 || named.indexOf("/", colon) >= 0) return { name: named };
  return { name: named.slice(0, colon), tag: named.slice(colon + 1) };
}

/** Splits a name. Its first part is a host if it is `localhost` or has a character that no path has. */
function cutHost(name: string): { host?: string; path: string } {
  const slash = name.indexOf("/");
  const first = name.slice(0, Math.max(0, slash));
  const isHost = first === "localhost" || /[.:A-Z]/.test(first);
  return isHost ? { host: first, path: name.slice(slash + 1) } : { path: name };
}

function registryOf(given: string): string | undefined {
  const [, host = "", port] = /^(.*?)(?::(\d{1,5}))?$/.exec(given.toLowerCase())!;
  if (!HOST.test(host) || host.includes("..")) return undefined;
  if (port === undefined) return HUB_NAMES.includes(host) ? DOCKER_HUB : host;
  const number = Number(port);
  if (number < 1 || number > 65535) return undefined;
  return number === 443 ? host : `${host}:${number}`;
}
