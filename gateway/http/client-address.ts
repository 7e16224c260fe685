import type { FastifyRequest } from "fastify";

/** Returns the client's address; an IPv4 address inside IPv6 as IPv4. */
export function clientAddress(request: FastifyRequest): string {
  const ip = request.ip ?? "";
  return ip.startsWith("::ffff:") ? ip.slice(7) : ip;
}

/** Returns what counts as one client in limits by address: an IPv4 address, or the /64 of an IPv6 one. */
export function networkOf(ip: string): string {
  if (!ip.includes(":")) return ip;
  const [head = "", tail] = ip.split("::");
  const groups = head === "" ? [] : head.split(":");
  const rest = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - groups.length - rest.length;
  return `${[...groups, ...Array(Math.max(0, zeros)).fill("0"), ...rest].slice(0, 4).join(":")}::/64`;
}
