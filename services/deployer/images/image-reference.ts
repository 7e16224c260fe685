/** An image reference taken apart and made comparable: `nginx` is `docker.io/library/nginx`. */
export type ImageReference = {
  /** Host in lower case, with its port unless that is 443. */
  registry: string;
  /** Path within the registry. */
  repository: string;
  tag?: string;
  digest?: string;
};

export const MAX_IMAGE_LENGTH = 512;
const DOCKER_HUB = "docker.io";
const HUB_NAMES = ["index.docker.io", "registry-1.docker.io"];
const EXAMPLE = "such as nginx:1.27 or registry.example.com:5000/shop/web:1.4";

const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])$/;
const COMPONENT = /^[a-z0-9]+(?:(?:__|[._]|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

/**
 * Reads an image reference, `[host[:port]/]path[:tag][@sha256:…]`, as registries and their clients do; else
 * says in a sentence what to change. What it takes is plain printable ASCII.
 */
export function parseImageReference(text: string): ImageReference | { problem: string } {
  if (text.length > MAX_IMAGE_LENGTH) return problem(`has at most ${MAX_IMAGE_LENGTH} characters`);
  if (/[^!-~]/.test(text)) return problem("cannot hold spaces, control characters or letters beyond ASCII");
  if (text.includes("://")) return problem("is written without a scheme like https://");
  const [named, digest, ...more] = text.split("@");
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest)))
    return problem("has after its @ only a digest: sha256: and 64 digits of 0-9 and a-f");
  const { name, tag } = cutTag(named!);
  if (tag !== undefined && !TAG.test(tag))
    return problem("has after its last colon a tag: 1-128 letters, digits, _, . and -, not first . or -");
  const { host, path } = cutHost(name);
  const registry = host === undefined ? DOCKER_HUB : registryOf(host);
  if (!registry) return problem("begins with a host and, if it needs one, a port of 1-65535");
  const components = path.split("/");
  if (!components.every((component) => COMPONENT.test(component)))
    return problem("has a path of a-z and 0-9 in lower case, with single . _ - or / between them");
  const official = registry === DOCKER_HUB && components.length === 1;
  return {
    registry,
    repository: official ? `library/${path}` : path,
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && { digest }),
  };
}

function problem(what: string) {
  return { problem: `An image reference, ${EXAMPLE}, ${what}.` };
}

function cutTag(named: string): { name: string; tag?: string } {
  const colon = named.lastIndexOf(":");
  if (colon < 0 || named.indexOf("/", colon) >= 0) return { name: named };
  return { name: named.slice(0, colon), tag: named.slice(colon + 1) };
}

/** The first part is a host when nothing else could look like it. */
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
