import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const OPTIONS = { authTagLength: TAG_BYTES };

/** A key of 32 bytes. A KeyObject is four times faster than bytes, and shows nothing when printed. */
type AeadKey = Buffer | KeyObject;

/** The result of AES-256-GCM: a random nonce, as many bytes as the plaintext has, and a tag. */
type Encrypted = { nonce: Uint8Array; body: Uint8Array; tag: Uint8Array };

/** Encrypts bytes and binds them to a context: only the same key and context decrypt them. */
export function encrypt(key: AeadKey, context: Uint8Array, plain: Uint8Array): Encrypted {
  const nonce = nextNonce();
  const cipher = createCipheriv(ALGORITHM, key, nonce, OPTIONS).setAAD(context);
  const body = cipher.update(plain);
  cipher.final();
  return { nonce, body, tag: cipher.getAuthTag() };
}

/** Returns the plaintext; undefined for another key or context, or when a bit was changed. */
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

/** As `encrypt`, returning one buffer: nonce, tag, body. */
export function seal(key: AeadKey, context: Uint8Array, plain: Uint8Array): Buffer {
  const { nonce, body, tag } = encrypt(key, context, plain);
  return Buffer.concat([nonce, tag, body]);
}

/** Returns what `seal` sealed; undefined as for `decrypt`. */
export function open(key: AeadKey, context: Uint8Array, sealed: Uint8Array): Buffer | undefined {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  return decrypt(key, context, { nonce, tag, body: sealed.subarray(NONCE_BYTES + TAG_BYTES) });
}

// Random bytes are read for many nonces at once: one read per nonce costs more than the cipher.
let nonces = Buffer.alloc(0);

function nextNonce(): Buffer {
  if (nonces.length < NONCE_BYTES) nonces = randomBytes(256 * NONCE_BYTES);
  const nonce = nonces.subarray(0, NONCE_BYTES);
  nonces = nonces.subarray(NONCE_BYTES);
  return nonce;
}
