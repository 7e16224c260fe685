import { randomInt } from "node:crypto";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Returns a random word of letters and digits. */
export function randomWord(length: number): string {
  return Array.from({ length }, () => LETTERS[randomInt(LETTERS.length)]).join("");
}

/** Returns a new id, such as `cus_…`. */
export function newId(prefix: string, length = 24): string {
  return `${prefix}_${randomWord(length)}`;
}
