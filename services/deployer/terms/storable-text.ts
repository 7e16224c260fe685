/** Returns the text with U+FFFD for each NUL, which PostgreSQL's text cannot hold. */
export function toStorableText(text: string): string {
  return text.replaceAll("\0", "\ufffd");
}
