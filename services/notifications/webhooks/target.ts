import { BlockList, isIP } from "node:net";
import { isPublicAddress } from "../../kit/network/public-address.ts";
import { invalid } from "../../kit/rpc/refusals.ts";

/** Networks of one's own that the operator can allow. Link-local addresses, with those of metadata, are none. */
const own = new BlockList();
for (const [address, prefix] of [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const)
  own.addSubnet(address, prefix, "ipv4");
own.addAddress("::1", "ipv6");
own.addSubnet("fc00::", 7, "ipv6");

/** Where clouds answer with credentials of the machine, within networks of one's own. */
const metadata = new BlockList();
metadata.addAddress("100.100.100.200", "ipv4");
metadata.addSubnet("fd00:ec2::", 32, "ipv6");
for (const address of [
  "fd20:ce::254", // Google
  "fd00:c1::a9fe:a9fe", // Oracle
  "fd00:42::42", // Scaleway
  "fd00:a9fe:a9fe::1", // Akamai
  "fd00:100::100:200", // Alibaba
])
  metadata.addAddress(address, "ipv6");

function isOwnAddress(address: string): boolean {
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  return own.check(address, family) && !metadata.check(address, family);
}

/**
 * Returns the addresses to which a URL may lead (docs/webhooks.md#urls): those of the public internet, by https; where
 * the operator allows private networks, also their addresses, by https or http.
 */
export function allowedAddresses({ protocol }: URL, allowPrivate: boolean): (address: string) => boolean {
  const isOwn = (address: string) => allowPrivate && isOwnAddress(address);
  return protocol === "https:" ? (address) => isPublicAddress(address) || isOwn(address) : isOwn;
}

/** Returns the address that is the host of a URL; undefined for a name. */
export function addressIn({ hostname }: URL): string | undefined {
  const address = hostname.replace(/^\[|\]$/g, "");
  return isIP(address) === 0 ? undefined : address;
}

/** Returns the URL of a webhook in its one spelling. Throws 422 invalid_url. */
export function requireUrl(text: string, allowPrivate: boolean): string {
  const refused = (message: string) => invalid("url", "invalid_url", message);
  if (!URL.canParse(text)) throw refused("url is not a URL.");
  const url = new URL(text);
  const schemes = allowPrivate ? ["https:", "http:"] : ["https:"];
  if (!schemes.includes(url.protocol))
    throw refused(`url must begin with https://${allowPrivate ? ", or http:// in a private network" : ""}.`);
  if (url.username || url.password) throw refused("url must not contain a user name or a password.");
  if (url.hash) throw refused("url must not contain a fragment.");
  const isLocal = /(^|\.)localhost\.?$/.test(url.hostname);
  const address = addressIn(url) ?? (isLocal ? "127.0.0.1" : undefined);
  if (address !== undefined && !allowedAddresses(url, allowPrivate)(address))
    throw refused("url leads to an address that webhooks may not reach.");
  return url.href;
}
