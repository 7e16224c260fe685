import { randomUUID } from "node:crypto";

/** How long a text in an answer is at most. */
export const MAX_TEXT = 600;
/** How large an answer is at most, in characters of JSON: about 4 000 tokens. */
export const MAX_ANSWER = 14_000;

/**
 * Control, format (bidirectional, zero-width), private and unassigned characters, line separators, and whatever else is
 * drawn as nothing: variation selectors alone can spell a text of any length behind one letter.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;
/** The colours and movements of terminals, with what belongs to them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is removed.
const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Most texts are like this, and to look for what is hidden takes several times as long. */
const ONLY_VISIBLE = /^[\n\t\x20-\x7e]*$/;

/** Returns a text of somebody else's as plain text: without characters that hide or move others, and not too long. */
export function plain(text: string, max = MAX_TEXT): string {
  const visible = ONLY_VISIBLE.test(text) ? text : text.replaceAll(ANSI, "").replaceAll(HIDDEN, "");
  return visible.length > max
    ? `${visible.slice(0, max)}… (${visible.length - max} more characters)`
    : visible;
}

/** Returns a JSON value in which every text and name is plain. */
export function plainJson(value: unknown, max = MAX_TEXT): unknown {
  if (typeof value === "string") return plain(value, max);
  if (Array.isArray(value)) return value.map((each) => plainJson(each, max));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [plain(name, 200), plainJson(each, max)]),
  );
}

/** Returns an answer that fits: the longest lists are halved until it does, and it says so. */
export function fitted(answer: Record<string, unknown>, max = MAX_ANSWER): Record<string, unknown> {
  if (JSON.stringify(answer).length <= max) return answer;
  const copy = structuredClone(answer);
  for (;;) {
    let excess = JSON.stringify(copy).length - max;
    if (excess <= 0) return copy;
    const lists = listsIn(copy)
      .filter(({ length }) => length > 1)
      .map((list) => ({ list, size: JSON.stringify(list).length }))
      .sort((a, b) => b.size - a.size);
    if (!lists[0]) return startOf(JSON.stringify(copy), max);
    // All that are about as long as the longest in one pass: one at a time takes seconds for a project of many environments.
    for (const { list, size } of lists) {
      if (excess <= 0 || size * 2 < lists[0].size) break;
      list.splice(list.length >> 1);
      excess -= size - JSON.stringify(list).length;
    }
    copy.truncated = true;
  }
}

/** Returns the start of a text, as much as fits: quotes and line breaks take two characters in JSON. */
function startOf(text: string, max: number): Record<string, unknown> {
  const sizeOf = (length: number) => JSON.stringify({ truncated: true, text: text.slice(0, length) }).length;
  let [fits, tooLong] = [0, text.length + 1];
  while (tooLong - fits > 1) {
    const length = (fits + tooLong) >> 1;
    if (sizeOf(length) <= max) fits = length;
    else tooLong = length;
  }
  return { truncated: true, text: text.slice(0, fits) };
}

function listsIn(value: unknown): unknown[][] {
  if (typeof value !== "object" || value === null) return [];
  return [...(Array.isArray(value) ? [value] : []), ...Object.values(value).flatMap(listsIn)];
}

/**
 * Returns an answer as text, in marks that nothing in it can close: they are made after it. What is between them is data
 * of apps and people, whatever it says.
 */
export function fenced(answer: object, next: string | undefined): string {
  // Its last 48 bits: random ones that Node draws in advance, which costs a twentieth of `randomBytes`.
  const mark = `data-${randomUUID().slice(-12)}`;
  return `<${mark}>\n${JSON.stringify(answer)}\n</${mark}>${next ? `\nNext: ${next}` : ""}`;
}
