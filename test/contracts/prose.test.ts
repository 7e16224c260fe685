import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Phrases that are nearly always wrong in English about software, each with a better one (CONTRIBUTING.md#style).
 * Add one only when it has come up more than once.
 */
const PHRASES: [RegExp, string][] = [
  [/\b(?:is|are|was|were|be|been) told\b/i, "is notified, sees, gets a message: say how"],
  [/(?<!\b(?:about|by|for|from|of|to|with) )\bwhom\b/i, "name the person and let the person act"],
  [/\bmend(?:s|ed|ing)?\b/i, "fix, repair"],
  [/\bin earnest\b/i, "with real payments, in production"],
  [/\bstands? (?:in|beside|under)\b/i, "is in, is next to"],
  [/\blest\b/i, "so that … not"],
  [/\bbut for\b/i, "except"],
  [/\b(?:has|have) been? there\b|\bha(?:s|ve) to be there\b/i, "must exist"],
  [/\bunless (?:it is |they are )?(?:told|given|asked)\b/i, "by default"],
  [/\b(?:but|and|, one|one|some|two|none) of which\b/i, "start a new sentence"],
  [/\bnever may\b|\bmay (?:more|less) than\b/i, "must not, can only"],
  [/\bgo(?:es)? on\b/i, "continue"],
  [/\banew\b/i, "again"],
  [/\bfor good\b/i, "permanently"],
  [/\bfor ever\b/i, "never expires"],
  [/\bof late\b/i, "recently"],
  [/\bprolong(?:s|ed)?\b/i, "renew, extend"],
  [/\blet in\b/i, "allow, give access"],
  [/\bof (?:yours|one's own|its own accord)\b/i, "your own …, its own …"],
  [/\bone's own\b/i, "your own, the user's"],
  [/\bpass(?:es|ed) (?:it |them )?over\b/i, "ignore"],
  [/\bhand(?:s|ed) in\b/i, "send, submit"],
  [/\b(?:falls?|fell) ill\b/i, "becomes unhealthy"],
  [/\b(?:makes?|made) (?:it |them )?again\b/i, "create again"],
  [/\bthat there (?:is|are) not\b/i, "that does not exist"],
  [/\b(?:is|are) of no use\b/i, "is no longer useful"],
  [/\bas it came\b/i, "unchanged"],
  [/\bthe one that decides\b|\bthat (?:leads and )?decides\b/i, "the leader"],
  [/\b(?:at|by|from|in|of|to|with) (?:[\w'’-]+ ){1,3}alone\b/i, "only"],
  [/\b(?:thereof|therein|herewith|hereof)\b/i, "of it, in it: name it"],
];

/** The words of people who speak in these files are their own. */
const EXCEPTIONS = /^(?:LICENSE|package-lock\.json|test\/contracts\/prose\.test\.ts)$/;

const MARKDOWN = /\.md$/;
const CHART = /^helm\/.*\.(?:ya?ml|tpl|txt)$/;
const PROTO = /^proto\/berth\/.*\.proto$/;
/** What users and operators see: sentences of refusals, mails, pages, commands. */
const MESSAGES = /^(?:services|gateway|deploy|clients)\/.*\.(?:ts|js)$/;
const NO_MESSAGES = /\.test\.ts$|\/testing|\/gen\/|\/test(?:s|ing)?\//;

const blank = (text: string) => text.replaceAll(/[^\n]/g, " ");
const withoutCode = (text: string) =>
  text.replaceAll(/^( *)(```|~~~)[\s\S]*?^\1\2/gm, blank).replaceAll(/`[^`\n]*`/g, blank);
const withoutComments = (text: string) =>
  text.replaceAll(/^ *\/\*\*?[\s\S]*?\*\//gm, blank).replaceAll(/(?:^| )(?:\/\/|--) .*$/gm, blank);

/** Returns what people read of a file, line by line; nothing when that is nothing. */
function proseOf(file: string): string {
  const text = () => readFileSync(join(ROOT, file), "utf8");
  if (MARKDOWN.test(file)) return withoutCode(text());
  if (CHART.test(file) || PROTO.test(file)) return text();
  return MESSAGES.test(file) && !NO_MESSAGES.test(file) ? withoutComments(text()) : "";
}

/** Returns each phrase of a text, with its line. A phrase may break over two lines. */
function findPhrases(text: string): { line: number; phrase: string; better: string }[] {
  const flat = text.replaceAll(/\n[ \t]*(?:#|\/\/|\*)?[ \t]*/g, (gap) => gap.replaceAll(/[^\n]/g, " "));
  return PHRASES.flatMap(([wrong, better]) => {
    const spaced = new RegExp(wrong.source.replaceAll(" ", "\\s+"), "gi");
    return [...flat.matchAll(spaced)].map(({ 0: phrase, index }) => ({
      line: flat.slice(0, index).split("\n").length,
      phrase: phrase.replaceAll(/\s+/g, " "),
      better,
    }));
  });
}

test("what people read is plain English", () => {
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  }).split("\n");
  const found = files
    .filter((file) => file !== "" && !EXCEPTIONS.test(file) && existsSync(join(ROOT, file)))
    .flatMap((file) =>
      findPhrases(proseOf(file)).map(
        ({ line, phrase, better }) => `${file}:${line}: “${phrase}” – better: ${better}`,
      ),
    );
  expect(found).toEqual([]);
});

test("phrases are found where they are, also over the end of a line, and not in code", () => {
  const page = withoutCode("# Owners\n\nThe owner is\ntold `whom` it was.\n\n```\nwhom\n```\nMend it.\n");
  expect(findPhrases(page).map(({ line, phrase }) => `${line} ${phrase}`)).toEqual(["3 is told", "9 Mend"]);
  const source = withoutComments('// Whom it concerns.\nconst a = "Mend it."; // lest it breaks\n');
  expect(findPhrases(source).map(({ line }) => line)).toEqual([2]);
});
