import { createHash, createHmac, pbkdf2, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

const KEY_BYTES = 32;
/** What a server may have a client compute. PostgreSQL asks for 4096 unless somebody sets `scram_iterations`. */
const MOST_ITERATIONS = 1_000_000;

const hmac = (key: Buffer, text: string) => createHmac("sha256", key).update(text).digest();
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest();

/** Returns what PostgreSQL stores of a password, a SCRAM verifier (RFC 5803). `password` is plain ASCII. */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  const salted = pbkdf2Sync(password, salt, 4096, KEY_BYTES, "sha256");
  const stored = sha256(hmac(salted, "Client Key")).toString("base64");
  return `SCRAM-SHA-256$4096:${salt.toString("base64")}$${stored}:${hmac(salted, "Server Key").toString("base64")}`;
}

/**
 * A client's side of SCRAM-SHA-256 without channel binding (RFC 5802), as PostgreSQL takes it: the user is that of the
 * connection. `password` is plain ASCII.
 */
export function createScramClient(password: string) {
  const nonce = randomBytes(18).toString("base64");
  const bare = `n=,r=${nonce}`;
  let signature: Buffer | undefined;
  return {
    first: `n,,${bare}`,
    /** Returns the answer to the server's first message. Throws when that is none. */
    async answer(challenge: string): Promise<string> {
      const { r = "", s = "", i = "" } = attributesOf(challenge);
      const iterations = Number(i);
      if (!r.startsWith(nonce) || s === "") throw new Error("the server's challenge is not one of SCRAM");
      if (!(iterations >= 1 && iterations <= MOST_ITERATIONS))
        throw new Error("the server asks for too many iterations of SCRAM");
      const salted = await derive(password, Buffer.from(s, "base64"), iterations, KEY_BYTES, "sha256");
      const unproved = `c=biws,r=${r}`;
      const all = `${bare},${challenge},${unproved}`;
      const clientKey = hmac(salted, "Client Key");
      const proof = hmac(sha256(clientKey), all).map((byte, at) => byte ^ clientKey[at]!);
      signature = hmac(hmac(salted, "Server Key"), all);
      return `${unproved},p=${Buffer.from(proof).toString("base64")}`;
    },
    /** Whether the server's last message shows that it knows the password too. */
    isServer(last: string): boolean {
      const given = Buffer.from(attributesOf(last).v ?? "", "base64");
      return signature?.length === given.length && timingSafeEqual(signature, given);
    },
  };
}

const derive = promisify(pbkdf2);

/** Returns the attributes of a message, such as `r=…,s=…`, by their letter. */
function attributesOf(message: string): Partial<Record<string, string>> {
  return Object.fromEntries(message.split(",").map((one) => [one.slice(0, 1), one.slice(2)]));
}
