import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import * as aead from "../../kit/crypto/aead.ts";

// Encryption of variable values (docs/variables.md#encryption): a value is sealed under the data key of its
// account; a data key is stored wrapped by a key-encryption key. Keys travel as KeyObject: printing or
// serialising one shows nothing, and node:crypto is four times faster with it than with raw bytes.

const VERSION = 1;
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + NONCE_BYTES;
const HOW_TO_MAKE_A_KEY = "make a key with: openssl rand -base64 32";

/** The key-encryption keys of this installation. The first one wraps, all of them unwrap. */
export type Keyring = { readonly currentId: string; readonly keys: ReadonlyMap<string, KeyObject> };

/** A data key as it is stored: the id of the key that wraps it, and the wrapped bytes. */
export type WrappedKey = { kekId: string; wrapped: Buffer };

/** What a sealed value is bound to. A value moved to any other variable does not open. */
export type SealContext = { accountId: string; scope: string; scopeId: string; name: string };

/** The data key of an account cannot be unwrapped with the configured keys. Callers answer 503. */
export class KeyUnavailable extends Error {
  override readonly name = "KeyUnavailable";
}

/** A sealed value is damaged, moved, of an unknown version, or under another data key. Callers answer 503. */
export class SealBroken extends Error {
  override readonly name = "SealBroken";
}

/**
 * Reads the setting `ENCRYPTION_KEYS`: `id:base64,id2:base64`, each key 32 bytes. The first key encrypts; the
 * others stay so that older rows open. Throws one Error that lists every mistake by the position of its entry
 * and says what to change. It never repeats any part of the text: even an id may be a misplaced key.
 */
export function parseKeys(text: string): Keyring {
  const entries = text.split(",").map((entry) => entry.trim());
  if (entries.every((entry) => entry === "")) throw new Error(`no key is given; ${HOW_TO_MAKE_A_KEY}`);
  const keys = new Map<string, KeyObject>();
  const problems: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const problem = addKey(keys, entry);
    if (problem !== undefined) problems.push(`entry ${index + 1} ${problem}`);
  }
  if (problems.length > 0) throw new Error(problems.join("; "));
  return { currentId: keys.keys().next().value!, keys };
}

function addKey(keys: Map<string, KeyObject>, entry: string): string | undefined {
  const colon = entry.indexOf(":");
  if (colon < 0) return "must have the form id:base64, such as k1:<key>";
  const id = entry.slice(0, colon);
  if (!/^[A-Za-z0-9._-]{1,32}$/.test(id)) return "needs an id of 1 to 32 letters, digits, '.', '_' or '-'";
  if (keys.has(id)) return "has the id of an earlier entry; give every key its own id";
  const encoded = entry.slice(colon + 1);
  const bytes = Buffer.from(encoded, "base64");
  // Node skips what is not base64, so a damaged key would silently become another key.
  const complete = /^[A-Za-z0-9+/_-]{43}=?$/.test(encoded) && bytes.length === KEY_BYTES;
  if (!complete) return `must carry 32 bytes in base64 after its id; ${HOW_TO_MAKE_A_KEY}`;
  keys.set(id, createSecretKey(bytes));
  return undefined;
}

/** A fresh random data key for one account. */
export function newDataKey(): KeyObject {
  return createSecretKey(randomBytes(KEY_BYTES));
}

/** Wraps a data key under the first key of the keyring, bound to its account. */
export function wrapDataKey(keyring: Keyring, accountId: string, dataKey: KeyObject): WrappedKey {
  const kekId = keyring.currentId;
  const wrapped = encrypt(keyring.keys.get(kekId)!, wrapContext(accountId, kekId), dataKey.export());
  return { kekId, wrapped };
}

/** Opens a wrapped data key. Throws KeyUnavailable when its key is not configured, differs, or the row is damaged. */
export function unwrapDataKey(keyring: Keyring, accountId: string, row: WrappedKey): KeyObject {
  const kek = keyring.keys.get(row.kekId);
  if (kek === undefined) {
    throw new KeyUnavailable(
      `the data key of ${accountId} is wrapped by encryption key "${row.kekId}", which is not configured; put it back`,
    );
  }
  const bytes = decrypt(kek, wrapContext(accountId, row.kekId), row.wrapped);
  if (bytes?.length !== KEY_BYTES) {
    throw new KeyUnavailable(
      `the data key of ${accountId} does not open with encryption key "${row.kekId}"; configure the key it was wrapped with`,
    );
  }
  const dataKey = createSecretKey(bytes);
  bytes.fill(0);
  return dataKey;
}

/**
 * Seals a value in its context: version byte, 12-byte random nonce, ciphertext, 16-byte tag (29 bytes more than
 * the UTF-8 of the value). Throws TypeError on a lone surrogate, which UTF-8 cannot carry back.
 */
export function seal(dataKey: KeyObject, context: SealContext, plaintext: string): Buffer {
  if (!plaintext.isWellFormed()) throw new TypeError("a value must be well-formed Unicode");
  return encrypt(dataKey, authenticatedData(context), Buffer.from(plaintext));
}

/** Returns what `seal` sealed in the same context. Throws SealBroken otherwise; the message names the context only. */
export function open(dataKey: KeyObject, context: SealContext, sealed: Uint8Array): string {
  const plain = decrypt(dataKey, authenticatedData(context), sealed);
  if (plain === undefined) {
    throw new SealBroken(
      `the stored value of ${context.name} in ${context.scope} ${context.scopeId} does not open with the data key of ${context.accountId}`,
    );
  }
  return plain.toString("utf8");
}

// Every part carries its length, so that no two contexts have the same bytes.
function authenticatedData({ accountId, scope, scopeId, name }: SealContext): Buffer {
  return Buffer.from(
    `berth:value:${VERSION}|${accountId.length}:${accountId}|${scope.length}:${scope}|${scopeId.length}:${scopeId}|${name.length}:${name}`,
  );
}

function wrapContext(accountId: string, kekId: string): Buffer {
  return Buffer.from(`berth:data-key:${VERSION}|${accountId.length}:${accountId}|${kekId.length}:${kekId}`);
}

function encrypt(key: KeyObject, context: Buffer, plain: Buffer): Buffer {
  const { nonce, body, tag } = aead.encrypt(key, context, plain);
  return Buffer.concat([Buffer.of(VERSION), nonce, body, tag]);
}

// Undefined when the frame is not ours or the tag does not match; nothing unverified is ever returned.
function decrypt(key: KeyObject, context: Buffer, sealed: Uint8Array): Buffer | undefined {
  if (sealed.length < HEADER_BYTES + TAG_BYTES || sealed[0] !== VERSION) return undefined;
  const nonce = sealed.subarray(1, HEADER_BYTES);
  const body = sealed.subarray(HEADER_BYTES, -TAG_BYTES);
  return aead.decrypt(key, context, { nonce, body, tag: sealed.subarray(-TAG_BYTES) });
}
