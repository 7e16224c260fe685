/** Returns a word as a POSIX shell reads it back, quoted only where that is needed. */
export function shellQuote(word: string): string {
  return /^[\w./=:@-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
