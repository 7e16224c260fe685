import { randomFillSync } from "node:crypto";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const GIVEN = /^[A-Za-z0-9._~:-]{1,128}$/;

const pool = Buffer.alloc(4096);
let used = pool.length;
let second = 0;
let stamp = "";

/**
 * Returns the id of a request: the client's X-Request-Id when it is 1-128 plain characters, otherwise a new one.
 * Random bytes are drawn for many requests at once.
 */
export function requestId(given: string | string[] | undefined): string {
  if (typeof given === "string" && GIVEN.test(given)) return given;
  if (used + 16 > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    stamp = `req_${now.toString(32).padStart(7, "0")}`;
  }
  let id = stamp;
  for (let i = 0; i < 16; i++) id += ALPHABET[pool[used++]! & 31];
  return id;
}
