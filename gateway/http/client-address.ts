/** Returns the client's address; an IPv4 address inside IPv6 as IPv4. */
export function clientAddress({ ip = "" }: { ip?: string }): string {
  return ip.startsWith("::ffff:") ? ip.slice(7) : ip;
}
