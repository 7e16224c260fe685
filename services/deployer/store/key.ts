import { ObjectStoreError } from "./port.ts";

const KEY = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Whether the port takes this key. */
export function isKey(key: string): boolean {
  return key.length <= 200 && KEY.test(key);
}

/** The key; throws `ObjectStoreError` `invalid_key` when the port does not take it. */
export function checkedKey(key: string): string {
  if (!isKey(key)) throw new ObjectStoreError("invalid_key", `${JSON.stringify(key)} is not a key.`);
  return key;
}
