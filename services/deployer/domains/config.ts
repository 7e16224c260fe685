import { isIP } from "node:net";
import { type ConfigOf, choice, type Field, isTexts, json, optionalText } from "../../kit/process/config.ts";
import { isServer } from "./look-up.ts";

/** The environment variables that say which host names services may have besides their own addresses. */
export const domainFields = {
  /** The servers that are asked, as `address` or `address:port`; those of the system unless given. */
  dnsServers: list(
    "DNS_SERVERS",
    isServer,
    "a comma-separated list of addresses, each with or without a port",
  ),
  /** Addresses of what is in front of apps, for host names that cannot be a CNAME. */
  domainAddresses: list(
    "DOMAINS_ADDRESSES",
    (text) => isIP(text) > 0,
    "a comma-separated list of IP addresses",
  ),
  /** Under which CNAMEs point here: all of its names must lead to what is in front of apps. */
  domainTarget: optionalText("DOMAINS_TARGET"),
  /** Whether `*.example.com` may be added. */
  domainWildcard: choice("DOMAINS_WILDCARD", ["on", "off"] as const, "off"),
  /** Host names of the installation itself: nobody may add them, or a name under them. */
  domainsReserved: list(
    "DOMAINS_RESERVED",
    (text) => /^[a-z0-9.-]+$/i.test(text),
    "a comma-separated list of host names",
  ),
};

/** The same on a cluster, with what issues certificates and how Ingresses redirect. */
export const kubernetesDomainFields = {
  ...domainFields,
  /** The ClusterIssuer of cert-manager that issues certificates for them; none are issued unless given. */
  domainIssuer: optionalText("DOMAINS_ISSUER"),
  /** Annotations of an Ingress that redirects; `{target}` stands for the host name. Those of ingress-nginx unless given. */
  domainRedirect: json(
    "DOMAINS_REDIRECT_ANNOTATIONS",
    {
      "nginx.ingress.kubernetes.io/permanent-redirect": "https://{target}$request_uri",
      "nginx.ingress.kubernetes.io/permanent-redirect-code": "308",
    } as Record<string, string>,
    isTexts,
    "an object of texts",
  ),
};

function list(name: string, holds: (text: string) => boolean, must: string): Field<string[]> {
  return {
    name,
    parse(given = "") {
      const parts = given.split(",").map((part) => part.trim());
      const texts = parts.filter((part) => part !== "");
      if (!texts.every(holds)) throw new Error(`must be ${must}`);
      return texts;
    },
  };
}

/** What an installation says about domains. */
export type DomainSettings = {
  /** Undefined where no CNAME can point here. */
  target: string | undefined;
  addresses: string[];
  wildcard: boolean;
  reserved: string[];
};

/** Returns the settings of an installation. `own` are host names of it that the configuration names elsewhere. */
export function domainSettings(
  config: ConfigOf<typeof domainFields>,
  own: { appsDomain: string; publicHost?: string },
): DomainSettings {
  const { appsDomain, publicHost } = own;
  const target = config.domainTarget ?? (appsDomain === "localhost" ? undefined : appsDomain);
  const reserved = [...config.domainsReserved, appsDomain, publicHost, target];
  return {
    target: target?.toLowerCase(),
    addresses: config.domainAddresses,
    wildcard: config.domainWildcard === "on",
    reserved: reserved.filter((host) => host !== undefined).map((host) => host.toLowerCase()),
  };
}
