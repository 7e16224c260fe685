import type { IncomingMessage } from "node:http";

const NAMES = ["127.0.0.1", "localhost", "[::1]"];

/** Whether an address is one of this machine alone; also where IPv4 is mapped to IPv6. */
export function isLoopback(address = ""): boolean {
  return address === "::1" || /^(::ffff:)?127\./.test(address);
}

/**
 * Returns whether a request to a server of this machine names it as its host. A page of elsewhere whose name was made to
 * point here (DNS rebinding) sends its own name, and could read every answer.
 */
export function namesThisMachine({ headers, socket }: IncomingMessage): boolean {
  return NAMES.some((name) => headers.host?.toLowerCase() === `${name}:${socket.localPort}`);
}

/**
 * Returns whether a request was made by one of the server's own pages, by a program, or by a person who followed a link
 * from anywhere. Pages of others, which browsers let send forms and simple requests to any address, are refused.
 */
export function isOwnRequest(request: IncomingMessage): boolean {
  if (!namesThisMachine(request)) return false;
  const { origin, host, "sec-fetch-site": site } = request.headers;
  if (
    request.headers["sec-fetch-mode"] === "navigate" &&
    request.headers["sec-fetch-dest"] === "document" &&
    request.method === "GET"
  )
    return true;
  // Of pages that send no referrer, the origin is "null" even to themselves: where the site is told, it decides.
  if (site !== undefined) return site === "same-origin" || site === "none";
  return origin === undefined || origin === `http://${host}`;
}

export const NOT_OWN_REQUEST =
  "This server only answers its own pages and programs: open it at the address that npm start printed.\n";
