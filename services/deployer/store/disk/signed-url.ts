import { createHmac, timingSafeEqual } from "node:crypto";

/** What a signed URL allows. */
type UploadGrant = {
  method: "PUT";
  key: string;
  contentType: string;
  maxBytes: number;
  /** Seconds since the epoch. */
  expiresAt: number;
  /** The account; absent in URLs of earlier versions. */
  owner?: string;
};

/** Returns the query of a signed URL: the grant's terms, and the HMAC-SHA256 over the whole grant. */
export function signGrant(grant: UploadGrant, secret: string): URLSearchParams {
  return new URLSearchParams({
    type: grant.contentType,
    max: String(grant.maxBytes),
    expires: String(grant.expiresAt),
    ...(grant.owner !== undefined && { owner: grant.owner }),
    signature: sign(grant, secret).toString("base64url"),
  });
}

/**
 * Returns the grant that a query proves for this method and key under one of the secrets; undefined when it proves none.
 * Does not check the expiry.
 */
export function verifyGrant(
  method: string,
  key: string,
  query: URLSearchParams,
  secrets: readonly string[],
): UploadGrant | undefined {
  const [maxBytes, expiresAt] = [Number(query.get("max") ?? "x"), Number(query.get("expires") ?? "x")];
  if (method !== "PUT" || !Number.isSafeInteger(maxBytes) || !Number.isSafeInteger(expiresAt))
    return undefined;
  const owner = query.get("owner") ?? undefined;
  const contentType = query.get("type") ?? "";
  const grant: UploadGrant = {
    method,
    key,
    contentType,
    maxBytes,
    expiresAt,
    ...(owner !== undefined && { owner }),
  };
  const given = Buffer.from(query.get("signature") ?? "", "base64url");
  const matches = secrets.map((secret) => {
    const expected = sign(grant, secret);
    return expected.length === given.length && timingSafeEqual(expected, given);
  });
  return matches.includes(true) ? grant : undefined;
}

function sign(grant: UploadGrant, secret: string): Buffer {
  const { method, key, contentType, maxBytes, expiresAt, owner } = grant;
  const all = ["berth upload 1", method, key, contentType, maxBytes, expiresAt];
  const terms = JSON.stringify(owner === undefined ? all : [...all, owner]);
  return createHmac("sha256", secret).update(terms).digest();
}

/** What a signed URL of a download allows. */
export type DownloadGrant = {
  key: string;
  fileName: string;
  expiresAt: number;
  /** The account; absent in URLs of earlier versions. */
  owner?: string;
};

/** Returns the query of a signed URL of a download. */
export function signDownload(grant: DownloadGrant, secret: string): URLSearchParams {
  return new URLSearchParams({
    name: grant.fileName,
    expires: String(grant.expiresAt),
    ...(grant.owner !== undefined && { owner: grant.owner }),
    signature: downloadSignature(grant, secret).toString("base64url"),
  });
}

/** Returns the grant that a query proves for this key, as `verifyGrant` does. */
export function verifyDownload(
  key: string,
  query: URLSearchParams,
  secrets: readonly string[],
): DownloadGrant | undefined {
  const expiresAt = Number(query.get("expires") ?? "x");
  if (!Number.isSafeInteger(expiresAt)) return undefined;
  const owner = query.get("owner") ?? undefined;
  const grant = { key, fileName: query.get("name") ?? "", expiresAt, ...(owner !== undefined && { owner }) };
  const given = Buffer.from(query.get("signature") ?? "", "base64url");
  const matches = secrets.map((secret) => {
    const expected = downloadSignature(grant, secret);
    return expected.length === given.length && timingSafeEqual(expected, given);
  });
  return matches.includes(true) ? grant : undefined;
}

function downloadSignature({ key, fileName, expiresAt, owner }: DownloadGrant, secret: string): Buffer {
  const all = ["berth download 1", key, fileName, expiresAt];
  const terms = JSON.stringify(owner === undefined ? all : [...all, owner]);
  return createHmac("sha256", secret).update(terms).digest();
}
