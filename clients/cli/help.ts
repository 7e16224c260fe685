import { COMMON, type Description, type Option } from "./description.ts";
import { EXIT } from "./failure.ts";
import { SECTIONS } from "./registry.ts";

const COLUMN = 26;
const WIDTH = 96;

/** Returns the text of `berth help`. */
export function overview(): string {
  const lines = [
    "berth deploys, watches and configures services of a Berth installation.",
    "",
    "  berth login https://berth.example.com    sign in",
    "  berth init shop                          create a project for this folder",
    "  berth up                                 deploy this folder",
  ];
  for (const { title, entries } of SECTIONS) {
    lines.push("", title);
    for (const { word, summary } of entries) lines.push(`  ${word.padEnd(12)} ${summary}`);
  }
  lines.push("", "Each command explains itself: berth up --help.");
  return lines.join("\n");
}

/** Returns the help of a command; of several that share a word, an overview. */
export function helpOf(word: string, commands: Description[]): string {
  return commands.length === 1 ? commandHelp(commands[0]!) : groupHelp(word, commands);
}

function groupHelp(word: string, commands: Description[]): string {
  const examples = commands.flatMap((each) => each.examples.slice(0, 1)).slice(0, 3);
  const lines = exampleLines(examples);
  for (const each of commands) lines.push(`  ${usageOf(each).padEnd(40)} ${each.summary}`);
  lines.push("", `Options of each: berth ${word} ${commands.at(-1)!.name.split(" ")[1]} --help`);
  return lines.join("\n");
}

/** Returns how a command is typed. */
export const usageOf = ({ name, args, takesCommand }: Description) =>
  ["berth", name, args, takesCommand && "-- COMMAND"].filter(Boolean).join(" ");

/** Returns the help of one command. */
export function commandHelp(command: Description): string {
  const { summary, about = [], options = {}, examples } = command;
  const lines = [...exampleLines(examples), `${usageOf(command)}`, `  ${summary}.`];
  for (const paragraph of about) lines.push("", ...wrap(paragraph, WIDTH - 2).map((line) => `  ${line}`));
  if (Object.keys(options).length > 0) lines.push("", "Options", ...optionLines(options));
  lines.push("", "Options of every command", ...optionLines(COMMON));
  return lines.join("\n");
}

function exampleLines(examples: [string, string][]): string[] {
  const width = Math.max(...examples.map(([line]) => line.length)) + 8;
  return [...examples.map(([line, does]) => `  ${`berth ${line}`.padEnd(width)} ${does}`), ""];
}

function optionLines(options: Record<string, Option>): string[] {
  return Object.entries(options).flatMap(([name, option]) => {
    const head = `  ${optionHead(name, option)}`;
    const [first = "", ...more] = wrap(option.about, WIDTH - COLUMN);
    const start = head.length < COLUMN ? [head.padEnd(COLUMN) + first] : [head, " ".repeat(COLUMN) + first];
    return [...start, ...more.map((line) => " ".repeat(COLUMN) + line)];
  });
}

/** Returns an option as it is typed: `-p, --project PROJECT`. */
export function optionHead(name: string, option: Option): string {
  const short = option.short ? `-${option.short}, ` : "";
  return `${short}--${name}${option.kind === "flag" ? "" : ` ${option.value}`}`;
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Exit codes with their meaning, for docs/cli.md#exit-codes. */
export const EXIT_CODES: [number, string][] = [
  [EXIT.ok, "done; for a deployment: healthy"],
  [EXIT.refused, "refused by Berth, or not possible here"],
  [EXIT.usage, "the command line is wrong, or a question needs a terminal or `--yes`"],
  [EXIT.deployFailed, "the deployment failed, was superseded, or is not healthy"],
  [EXIT.unreachable, "the installation cannot be reached"],
  [EXIT.canceled, "canceled with Ctrl-C, or by an answer"],
];
