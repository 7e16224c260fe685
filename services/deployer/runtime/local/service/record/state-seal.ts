import { hkdfSync } from "node:crypto";
import { open, seal } from "../../../../../kit/crypto/aead.ts";

const NO_CONTEXT = Buffer.alloc(0);

export type Sealer = {
  /** Returns the same text for the same object: a sealed object must not be changed. */
  seal(value: object): string;
  /** Returns undefined when the text was sealed under another secret or is damaged. */
  open(sealed: string): unknown;
};

/** Seals what the runtime's state files must not show, under a key derived from `secret`. */
export function createSealer(secret: string): Sealer {
  const key = Buffer.from(hkdfSync("sha256", secret, "", "berth local runtime state", 32));
  const known = new WeakMap<object, string>();
  return {
    seal(value) {
      const done = known.get(value);
      if (done !== undefined) return done;
      const sealed = seal(key, NO_CONTEXT, Buffer.from(JSON.stringify(value))).toString("base64");
      known.set(value, sealed);
      return sealed;
    },
    open(sealed) {
      const text = open(key, NO_CONTEXT, Buffer.from(sealed, "base64"));
      return text && JSON.parse(text.toString());
    },
  };
}
