import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Secrets } from "../../secrets.ts";

/** Where the tunnels of all addons begin. */
export const TUNNELS = "/tunnels/";
/** For how long connections can begin with a ticket. */
const VALID_MS = 5 * 60_000;

/** `password`: what its connections may log in with; absent in those of earlier versions. */
type Ticket = { serviceId: string; expiresMs: number; password?: string };

/** Returns the path at which anyone can connect to an addon until it expires. */
export function sealTicket(
  secrets: Pick<Secrets, "seal">,
  serviceId: string,
  password: string,
  now: number,
): { path: string; expiresAt: Timestamp } {
  const ticket: Ticket = { serviceId, expiresMs: now + VALID_MS, password };
  const sealed = secrets.seal(JSON.stringify(ticket), TUNNELS);
  return { path: TUNNELS + sealed.toString("base64url"), expiresAt: timestampFromMs(ticket.expiresMs) };
}

/** Returns what `sealTicket` sealed in a path; undefined for any other. Does not check the expiry. */
export function openTicket(secrets: Pick<Secrets, "open">, path: string): Ticket | undefined {
  try {
    return JSON.parse(secrets.open(Buffer.from(path.slice(TUNNELS.length), "base64url"), TUNNELS));
  } catch {
    return undefined;
  }
}
