import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";

export type Macs = ReturnType<typeof createMacs>;

/** MACs for one purpose, under keys derived from the process's: the first key makes them, all check them. */
export function createMacs(keys: Buffer[], purpose: string) {
  const secrets = keys.map((key) => Buffer.from(hkdfSync("sha256", key, "", purpose, 32)));
  const mac = (secret: Buffer, of: string) => createHmac("sha256", secret).update(of).digest("base64url");
  return {
    macOf: (text: string) => mac(secrets[0]!, text),
    isMac(given: string, text: string): boolean {
      const bytes = Buffer.from(given);
      return secrets.some((secret) => {
        const expected = Buffer.from(mac(secret, text));
        return bytes.length === expected.length && timingSafeEqual(bytes, expected);
      });
    },
  };
}
