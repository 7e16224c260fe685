import { createHash } from "node:crypto";
import { clientNetwork } from "../../kit/network/client-network.ts";

/** Returns the key for counting failures of an e-mail from an address, as a hash that reveals neither. */
export function attemptKey(email: string, ip: string): Buffer {
  return createHash("sha256")
    .update(`${email}\n${clientNetwork(ip)}`)
    .digest();
}

/** Returns the key for counting something by subject: `windowKey("inviter", userId)`. */
export function windowKey(counted: string, subject: string): Buffer {
  return createHash("sha256").update(`${counted}\n${subject}\n`).digest();
}
