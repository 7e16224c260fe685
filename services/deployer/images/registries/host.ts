import { isIP } from "node:net";
import { isPublicAddress } from "../../../kit/network/public-address.ts";
import { invalid } from "../../../kit/rpc/refusals.ts";
import type { AllowedRegistries } from "../allowed-registries.ts";
import { parseImageReference } from "../image-reference.ts";

/** Which registries accounts may have logins for. */
export type RegistryRules = {
  /** Whether any may be; if not, images are pulled with the operator's logins alone. */
  accounts: boolean;
  /** Where images may come from. */
  allowed: AllowedRegistries;
  /** Hosts of the platform's registry. */
  own: readonly string[];
};

/** Returns the host of a registry in the form that parsed references have; undefined for what is none. */
export function parseRegistryHost(text: string): string | undefined {
  const found = parseImageReference(`${text}/any`);
  const isHost = !/[/@]/.test(text) && (text === "localhost" || /[.:]/.test(text));
  return "problem" in found || !isHost ? undefined : found.registry;
}

/**
 * Returns the host of a registry for which an account may have a login. Throws 422 invalid_host for what is none,
 * registry_not_allowed for one that the operator does not allow, and host_not_allowed for the platform's own and for an
 * address in a network of somebody's own.
 */
export function requireRegistryHost(given: string, { accounts, allowed, own }: RegistryRules): string {
  const refused = (reason: string, message: string) => invalid("host", reason, message);
  if (!accounts)
    throw refused(
      "registry_not_allowed",
      "This installation pulls images only with logins of its operator. Ask the operator for this one.",
    );
  const host = parseRegistryHost(given.trim());
  if (host === undefined)
    throw refused(
      "invalid_host",
      "Send the host of a registry such as ghcr.io or registry.example.com:5000, without scheme and path.",
    );
  const hosts = allowed.map((entry) => entry.split("/")[0]!);
  if (own.includes(host)) throw refused("host_not_allowed", "The platform's own registry needs no login.");
  if (allowed.length > 0 && !hosts.includes(host))
    throw refused("registry_not_allowed", `Images may only come from ${allowed.join(", ")}.`);
  if (!hosts.includes(host) && leadsInside(host))
    throw refused("host_not_allowed", `${host} is not an address of the public internet.`);
  return host;
}

/** Whether a host is an address that is not public, however it is written. What a name leads to is seen when it is asked. */
function leadsInside(host: string): boolean {
  const url = URL.parse(`https://${host}`);
  if (!url) return true;
  const name = url.hostname.replace(/^\[|\]$/g, "");
  return isIP(name) === 0 ? /(?:^|\.)localhost\.?$/.test(name) : !isPublicAddress(name);
}
