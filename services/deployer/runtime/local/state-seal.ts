import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

export interface Sealer {
  /** The same object gives the same text: objects that are sealed must not be changed any more. */
  seal(value: object): string;
  /** Undefined when it was sealed under another secret or has been damaged. */
  open(sealed: string): unknown;
}

/** Keeps variables unreadable in the runtime's state files: AES-256-GCM under a key derived from `secret`. */
export function createSealer(secret: string): Sealer {
  const key = Buffer.from(hkdfSync("sha256", secret, "", "berth local runtime state", 32));
  const known = new WeakMap<object, string>();
  return {
    seal(value) {
      const done = known.get(value);
      if (done !== undefined) return done;
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      const body = Buffer.concat([cipher.update(JSON.stringify(value), "utf8"), cipher.final()]);
      const sealed = Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
      known.set(value, sealed);
      return sealed;
    },
    open(sealed) {
      try {
        const bytes = Buffer.from(sealed, "base64");
        const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12));
        decipher.setAuthTag(bytes.subarray(12, 28));
        const text = Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]);
        return JSON.parse(text.toString("utf8"));
      } catch {
        return undefined;
      }
    },
  };
}
