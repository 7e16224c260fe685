import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";

/** MACs for one purpose, under keys derived from the process's: the first key makes them, all check them. */
export function createMacs(keys: Buffer[], purpose: string) {
  const secrets = keys.map((key) => Buffer.from(hkdfSync("sha256", key, "", purpose, 32)));
  const mac = (secret: Buffer, of: string) => createHmac("sha256", secret).update(of).digest("base64url");
  const macsOf = (text: string) => secrets.map((secret) => mac(secret, text));
  return {
    macOf: (text: string) => mac(secrets[0]!, text),
    /** Returns the MACs under all keys. */
    macsOf,
    isMac(given: string, text: string): boolean {
      const bytes = Buffer.from(given);
      return macsOf(text).some((made) => {
        const expected = Buffer.from(made);
        return bytes.length === expected.length && timingSafeEqual(bytes, expected);
      });
    },
  };
}
