import { parseEnv } from "node:util";
import { refused, usage } from "../../failure.ts";
import { shellQuoted } from "../../terminal/format.ts";

export const FORMATS = ["dotenv", "json", "shell"] as const;
type Entry = [name: string, value: string];

/** Reads variables from the text of a .env file, as Node's --env-file does, or from a JSON object of texts. */
export function readVariables(file: string): Entry[] {
  // Editors of Windows begin a file with a mark, which is no part of the first name.
  const text = file.replace(/^\uFEFF/, "");
  if (!text.trimStart().startsWith("{")) return Object.entries(parseEnv(text)) as Entry[];
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw usage("What is imported begins like JSON and is none.", "berth vars import FILE");
  }
  const entries = Object.entries(found as Record<string, unknown>);
  const wrong = entries.find(([, value]) => typeof value !== "string");
  if (wrong) throw usage(`The value of ${wrong[0]} is no text.`, "berth vars import FILE");
  return entries as Entry[];
}

/** What a shell takes for nothing but a name: a server could send others. */
const NAME = /^[A-Za-z_]\w*$/;

/** Writes variables so that what reads the format gets the same values. */
export function writeVariables(entries: Entry[], format: (typeof FORMATS)[number]): string {
  const [wrong] = entries.find(([name]) => format !== "json" && !NAME.test(name)) ?? [];
  if (wrong !== undefined)
    throw refused(`${JSON.stringify(wrong)} is no name of a variable.`, "berth vars export --format json");
  if (format === "json") return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
  const line =
    format === "shell" ? ([name, value]: Entry) => `export ${name}=${shellQuoted(value)}` : dotenvLine;
  return entries.map((entry) => `${line(entry)}\n`).join("");
}

/** What needs no quotes, whatever reads the file. */
const PLAIN = /^[\w./:@%+,=-]*$/;

/** Quotes as the format can: it has three kinds of quotes, and no escape for any of them. */
function dotenvLine([name, value]: Entry): string {
  if (PLAIN.test(value)) return `${name}=${value}`;
  const line = ["'", '"', "`"]
    .filter((quote) => !value.includes(quote))
    .map((quote) => `${name}=${quote}${value}${quote}`)
    .find((each) => parseEnv(each)[name] === value);
  if (line === undefined)
    throw usage(`The value of ${name} cannot be written in a .env file.`, "berth vars export --format json");
  return line;
}
