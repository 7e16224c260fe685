import { fetch } from "../../../../kit/network/fetch.ts";
import { basicAuth, bearerIn, tokenUrl } from "../../../images/registry-auth.ts";
import type { RegistryTarget } from "../job-request.ts";

/** An image in a registry. */
export type StoredImage = {
  digest: string;
  labels: Record<string, string>;
};

const MANIFEST_TYPES = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];
const REQUEST_MS = 30_000;

/**
 * Returns a client of a registry's HTTP API (the OCI distribution specification). References are complete:
 * `host/path:tag`, `host/path@sha256:…`. Errors do not contain credentials.
 */
export function connectRegistry({ push, insecure, auth }: RegistryTarget) {
  const tokens = new Map<string, string>();
  const host = push.split("/")[0]!;
  const basic = basicAuth(auth, host);

  async function send(ref: Reference, method: string, path: string): Promise<Response> {
    const url = `${insecure ? "http" : "https"}://${ref.host}/v2/${ref.path}/${path}`;
    const scope = `repository:${ref.path}:${method === "DELETE" ? "delete" : "pull"}`;
    const once = (authorization?: string) =>
      fetch(url, {
        method,
        headers: { accept: MANIFEST_TYPES.join(", "), ...(authorization && { authorization }) },
        signal: AbortSignal.timeout(REQUEST_MS),
      });
    const known = tokens.get(scope) ?? basic;
    const first = await once(known);
    if (first.status !== 401) return first;
    await first.body?.cancel();
    const token = await fetchToken(first.headers.get("www-authenticate") ?? "", scope, basic);
    if (token === undefined) throw new Error(`the registry ${ref.host} refused the credentials`);
    tokens.set(scope, token);
    return once(token);
  }

  async function getJson(ref: Reference, path: string) {
    const response = await send(ref, "GET", path);
    if (response.status === 404) return undefined;
    if (!response.ok) throw new Error(`the registry answers ${response.status} to GET ${ref.path}/${path}`);
    const digest = response.headers.get("docker-content-digest") ?? undefined;
    // Blobs are served without a JSON content type.
    return { digest, body: JSON.parse(await response.text()) as Record<string, unknown> };
  }

  return {
    /** Returns undefined when there is no such image. */
    async find(reference: string): Promise<StoredImage | undefined> {
      const ref = parse(reference);
      const manifest = await getJson(ref, `manifests/${ref.version}`);
      if (!manifest?.digest) return undefined;
      const { config } = manifest.body as { config?: { digest?: string } };
      const blob = await getJson(ref, `blobs/${config?.digest}`);
      const content = blob?.body as { config?: { Labels?: Record<string, string> } } | undefined;
      return { digest: manifest.digest, labels: content?.config?.Labels ?? {} };
    },

    /**
     * Removes an image with all its tags; `reference` ends with its digest. Returns false when the registry does not
     * allow removal, and true when there is no such image.
     */
    async remove(reference: string): Promise<boolean> {
      const ref = parse(reference);
      const response = await send(ref, "DELETE", `manifests/${ref.version}`);
      await response.body?.cancel();
      if (response.ok || response.status === 404) return true;
      if (response.status === 405) return false;
      throw new Error(`the registry answers ${response.status} to DELETE ${ref.path}`);
    },
  };
}

type Reference = {
  host: string;
  path: string;
  /** A tag or a digest. */
  version: string;
};

function parse(reference: string): Reference {
  const [, host, path, tag, digest] =
    /^([^/]+)\/([a-z0-9._/-]+?)(?::([\w.-]+))?(?:@(sha\d+:[0-9a-f]+))?$/.exec(reference) ?? [];
  const version = digest ?? tag;
  if (!host || !path || !version) throw new Error(`not a complete image reference: ${reference}`);
  return { host, path, version };
}

/** Returns the repository of a reference, without tag and digest. */
export function repositoryOf(reference: string): string {
  const { host, path } = parse(reference);
  return `${host}/${path}`;
}

/** Returns the `Authorization` with the token that a registry's challenge asks for; undefined when there is none. */
async function fetchToken(
  challenge: string,
  scope: string,
  basic: string | undefined,
): Promise<string | undefined> {
  const url = tokenUrl(challenge, scope);
  if (url === undefined) return undefined;
  const response = await fetch(url, {
    headers: { ...(basic && { authorization: basic }) },
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  if (!response.ok) return undefined;
  return bearerIn(await response.json());
}
