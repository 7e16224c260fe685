/** Top-level names of private networks, or reserved ones. */
const PRIVATE = [
  ...["local", "localhost", "localdomain", "internal", "intranet", "private", "corp", "home", "lan", "arpa"],
  ...["test", "invalid", "example", "onion", "alt"],
];

/** Returns whether this `URL.hostname` is a host name with a domain: neither an address nor localhost. */
export function isHostName(hostname: string): boolean {
  const labels = hostname.split(".");
  return (
    labels.length > 1 &&
    hostname.length <= 253 &&
    labels.every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label)) &&
    /^[a-z]/.test(labels.at(-1)!) &&
    labels.at(-1) !== "localhost"
  );
}

/** Returns whether this can be the name of a host on the public internet. */
export function isPublicName(hostname: string): boolean {
  return isHostName(hostname) && !PRIVATE.includes(hostname.split(".").at(-1)!);
}
