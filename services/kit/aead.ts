import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const OPTIONS = { authTagLength: TAG_BYTES };

/** 32 bytes. As a KeyObject it is four times faster, and printing it shows nothing. */
export type AeadKey = Buffer | KeyObject;

/** What AES-256-GCM makes of a text: a random nonce, as many bytes as the text has, and a tag. */
export type Encrypted = { nonce: Uint8Array; body: Uint8Array; tag: Uint8Array };

/** Encrypts bytes and binds them to their context: they open with the same key and context only. */
export function encrypt(key: AeadKey, context: Uint8Array, plain: Uint8Array): Encrypted {
  const nonce = nextNonce();
  const cipher = createCipheriv(ALGORITHM, key, nonce, OPTIONS).setAAD(context);
  const body = cipher.update(plain);
  cipher.final();
  return { nonce, body, tag: cipher.getAuthTag() };
}

/** Returns what was encrypted; undefined under another key or context, or when a bit was changed. */
export function decrypt(key: AeadKey, context: Uint8Array, encrypted: Encrypted): Buffer | undefined {
  const { nonce, body, tag } = encrypted;
  if (nonce.length !== NONCE_BYTES || tag.length !== TAG_BYTES) return undefined;
  const decipher = createDecipheriv(ALGORITHM, key, nonce, OPTIONS).setAAD(context).setAuthTag(tag);
  const plain = decipher.update(body);
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return plain;
}

/** As `encrypt`, in one piece: nonce, tag, body. */
export function seal(key: AeadKey, context: Uint8Array, plain: Uint8Array): Buffer {
  const { nonce, body, tag } = encrypt(key, context, plain);
  return Buffer.concat([nonce, tag, body]);
}

/** Opens what `seal` made; undefined as `decrypt`. */
export function open(key: AeadKey, context: Uint8Array, sealed: Uint8Array): Buffer | undefined {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  return decrypt(key, context, { nonce, tag, body: sealed.subarray(NONCE_BYTES + TAG_BYTES) });
}

// Fetched from the system for many texts at once: one at a time costs more than the cipher.
let nonces = Buffer.alloc(0);

function nextNonce(): Buffer {
  if (nonces.length < NONCE_BYTES) nonces = randomBytes(256 * NONCE_BYTES);
  const nonce = nonces.subarray(0, NONCE_BYTES);
  nonces = nonces.subarray(NONCE_BYTES);
  return nonce;
}
