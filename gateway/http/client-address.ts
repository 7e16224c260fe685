import type { FastifyRequest } from "fastify";

/** Returns the client's address; an IPv4 address inside IPv6 as IPv4. */
export function clientAddress(request: FastifyRequest): string {
  const ip = request.ip ?? "";
  return ip.startsWith("::ffff:") ? ip.slice(7) : ip;
}
