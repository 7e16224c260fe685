import { toStorableText } from "./storable-text.ts";

/** An error or a warning as stored; `at` is an ISO time. */
export type StoredNotice = { message: string; at: string; stage: string; code: string };

/** Returns an error or a warning with the current time, as PostgreSQL can store it. */
export function newNotice(stage: string, code: string, message: string): StoredNotice {
  return { message: toStorableText(message), at: new Date().toISOString(), stage, code };
}
