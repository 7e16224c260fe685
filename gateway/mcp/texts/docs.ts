import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** A page of docs/: its name without `.md`, its title, and its text. */
export type Page = { name: string; title: string; text: string };

/** A part of a page below one heading. */
export type Section = { page: string; heading: string; text: string };

export type Docs = { pages: Map<string, Page>; search: (query: string) => Section[] };

const FOUND = 5;
const MAX_SECTION = 1_200;

/** Reads the pages of a folder and returns them, with a search over their sections. */
export async function readDocs(folder: string): Promise<Docs> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".md")).sort();
  const all = await Promise.all(
    names.map(async (file) => {
      const text = await readFile(join(folder, file), "utf8");
      const name = file.slice(0, -3);
      return { name, title: /^# (.+)$/m.exec(text)?.[1] ?? name, text };
    }),
  );
  const pages = new Map(all.map((page) => [page.name, page]));
  const sections = all.flatMap(sectionsOf).map((section) => ({ section, words: wordsOf(section) }));
  const rarity = rarityOf(sections.map(({ words }) => words.all));
  return {
    pages,
    search(query) {
      const words = stems(query);
      // Two words in a question may be one on a page: roll back, rollback.
      const wanted = new Set([...words, ...words.slice(1).map((word, at) => words[at] + word)]);
      const scored = sections
        .map(({ section, words }) => ({ section, score: scoreOf(wanted, words, rarity) }))
        .filter(({ score }) => score > 0)
        .sort((a, b) => b.score - a.score);
      return scored.slice(0, FOUND).map(({ section }) => ({
        ...section,
        text: section.text.length > MAX_SECTION ? `${section.text.slice(0, MAX_SECTION)}…` : section.text,
      }));
    },
  };
}

function sectionsOf({ name, title, text }: Page): Section[] {
  return text.split(/^(?=#{1,4} )/m).map((part) => {
    const [first = "", ...rest] = part.split("\n");
    const heading = /^#+ (.+)$/.exec(first)?.[1];
    return { page: name, heading: heading ?? title, text: (heading ? rest.join("\n") : part).trim() };
  });
}

type Words = { heading: Set<string>; all: string[] };

function wordsOf({ page, heading, text }: Section): Words {
  const headings = stems(`${page} ${heading}`);
  return { heading: new Set(headings), all: [...headings, ...stems(text)] };
}

/** Returns the words of a text in lower case, without the endings that differ between a question and a page. */
function stems(text: string): string[] {
  return (text.toLowerCase().match(/[a-z0-9]{2,}/g) ?? []).map((word) =>
    word.length > 4 ? word.replace(/(?:ing|ies|es|ed|s|y)$/, "") : word,
  );
}

/** Returns how much a word says: one that is everywhere says little. */
function rarityOf(sections: string[][]): Map<string, number> {
  const inSections = new Map<string, number>();
  for (const words of sections)
    for (const word of new Set(words)) inSections.set(word, (inSections.get(word) ?? 0) + 1);
  return new Map([...inSections].map(([word, count]) => [word, Math.log(1 + sections.length / count)]));
}

/** How much a repeated word and a long section count (BM25 with its usual constants). */
const SATURATION = 1.2;
const USUAL_LENGTH = 150;

function scoreOf(wanted: Set<string>, { heading, all }: Words, rarity: Map<string, number>): number {
  const length = 0.25 + (0.75 * all.length) / USUAL_LENGTH;
  let score = 0;
  for (const word of wanted) {
    const times = all.filter((each) => each === word).length;
    const weight = rarity.get(word) ?? 0;
    score += (weight * times * (SATURATION + 1)) / (times + SATURATION * length);
    if (heading.has(word)) score += weight * 2;
  }
  return score;
}
