import { createHash } from "node:crypto";
import { clientNetwork } from "../../kit/network/client-network.ts";

/** Returns the key under which failures of an e-mail from an address are counted; it holds neither in the clear. */
export function attemptKey(email: string, ip: string): Buffer {
  return createHash("sha256")
    .update(`${email}\n${clientNetwork(ip)}`)
    .digest();
}

/** Returns the key under which something of one subject is counted: `windowKey("inviter", userId)`. */
export function windowKey(what: string, subject: string): Buffer {
  return createHash("sha256").update(`${what}\n${subject}\n`).digest();
}
