import { existsSync } from "node:fs";
import { join } from "node:path";
import { PATHS } from "../job-request.ts";

/** Where the operator's certificate bundle is, if one is mounted. */
export const CERTIFICATE_BUNDLE = join(PATHS.authorities, "ca.crt");

const VARIABLES = [
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "GIT_SSL_CAINFO",
  "CURL_CA_BUNDLE",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
];

/** Returns the variables by which this build's programs and the source's steps trust the operator's bundle. */
export function certificateVariables(): Record<string, string> {
  if (!existsSync(CERTIFICATE_BUNDLE)) return {};
  return Object.fromEntries(VARIABLES.map((name) => [name, CERTIFICATE_BUNDLE]));
}

/** Returns the mount of the bundle for steps that get `certificateVariables`. */
export function certificateMounts(variables: Record<string, string>) {
  return variables.SSL_CERT_FILE === CERTIFICATE_BUNDLE
    ? [{ from: PATHS.authorities, to: PATHS.authorities, writable: false }]
    : [];
}
