import { ObjectStoreError } from "./port.ts";

const KEY = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Whether the object store accepts this key. */
export function isKey(key: string): boolean {
  return key.length <= 200 && KEY.test(key);
}

/** Returns the key; throws `ObjectStoreError` `invalid_key` when the object store does not accept it. */
export function checkKey(key: string): string {
  if (!isKey(key)) throw new ObjectStoreError("invalid_key", `${JSON.stringify(key)} is not a valid key.`);
  return key;
}
