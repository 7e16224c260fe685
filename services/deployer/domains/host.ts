import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import { parse } from "tldts";
import { invalid } from "../../kit/rpc/refusals.ts";
import type { DomainSettings } from "./config.ts";

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** What a URL would take for the end of a host name, or for another way to write one. */
const NOT_IN_HOSTS = /[\s/\\?#@:%[\]_]/;

/**
 * Returns a host name as DNS has it: in lower case, as Punycode, without a dot at the end. Throws 422 invalid_host for
 * what is none, and host_not_allowed for one that no account can have: an address, a public suffix such as co.uk, a name
 * of the installation, or a wildcard where these are off.
 */
export function requireHost(path: string, given: string, settings: DomainSettings): string {
  const trimmed = given.trim().replace(/\.$/, "");
  const isWildcard = trimmed.startsWith("*.");
  const name = NOT_IN_HOSTS.test(trimmed) ? "" : domainToASCII(isWildcard ? trimmed.slice(2) : trimmed);
  if (isIP(name) || isIP(trimmed))
    throw notAllowed(path, "An IP address cannot be a domain. Send a host name such as shop.example.com.");
  const labels = name.split(".");
  const host = isWildcard ? `*.${name}` : name;
  if (labels.length < 2 || host.length > 253 || !labels.every((label) => LABEL.test(label)))
    throw invalid(
      path,
      "invalid_host",
      "Send a host name such as shop.example.com, without scheme, port and path.",
    );
  if (isWildcard && !settings.wildcard)
    throw notAllowed(path, "This installation has no wildcard domains. Add each host name by itself.");
  if (parse(name, { allowPrivateDomains: true }).domain === null)
    throw notAllowed(
      path,
      `${name} is a public suffix, under which anybody can have names. Send a host name under it.`,
    );
  if (settings.reserved.some((own) => isAtOrUnder(name, own)) || isAtOrUnder(name, "localhost"))
    throw notAllowed(path, `${name} belongs to this installation. Send a host name of another domain.`);
  return host;
}

/** Whether a host is the registered domain itself, where DNS allows no CNAME. */
export function isApex(host: string): boolean {
  return parse(host, { allowPrivateDomains: true }).domain === host;
}

function isAtOrUnder(host: string, parent: string): boolean {
  return host === parent || host.endsWith(`.${parent}`);
}

function notAllowed(path: string, message: string) {
  return invalid(path, "host_not_allowed", message);
}
