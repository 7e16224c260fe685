import { findAppRepository } from "../app-repositories.ts";

/** What is asked of a registry: whether it is one, or a part of an image; `path` names it, and nothing else. */
export type PullRequest = { what: "version" } | { what: "image"; path: string; accountId?: string };

const REPOSITORY = /^\/v2\/(apps(?:\/acc_[0-9a-z]{1,40})?)\//;
const MANIFEST = /^manifests\/(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|sha256:[0-9a-f]{64})$/;
const BLOB = /^blobs\/sha256:[0-9a-f]{64}$/;

/**
 * Returns what a request's target asks for; undefined unless it is written as clients of registries write it. So the
 * registry gets no path that it could read in another way. A query (containerd's `ns`) means nothing here.
 */
export function parsePullRequest(target: string): PullRequest | undefined {
  const path = target.split("?", 1)[0]!;
  if (path === "/v2/" || path === "/v2") return { what: "version" };
  const [before = "", repository = ""] = REPOSITORY.exec(path) ?? [];
  const part = path.slice(before.length);
  if (repository === "" || !(MANIFEST.test(part) || BLOB.test(part))) return undefined;
  const { accountId } = findAppRepository(repository) ?? {};
  return { what: "image", path, ...(accountId !== undefined && { accountId }) };
}
