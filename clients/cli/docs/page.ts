import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { COMMON, type Description, type Option, type Options } from "../description.ts";
import { EXIT_CODES, optionHead, usageOf } from "../help.ts";
import { loadAll } from "../registry.ts";

// Writes what the page says of exit codes, options and commands; with --check, fails when that is stale.

const PAGE = "docs/cli.md";
const file = join(import.meta.dirname, "../../..", PAGE);

/** Replaces what follows each of these headings, up to the next heading of the same level. */
function withSections(text: string, sections: Record<string, string>): string {
  let page = text;
  for (const [heading, body] of Object.entries(sections)) {
    const start = page.indexOf(`\n${heading}\n`);
    if (start < 0) throw new Error(`${PAGE} has no heading ${heading}`);
    const after = start + heading.length + 2;
    const next = page.indexOf("\n## ", after);
    page = `${page.slice(0, after)}\n${body.trimEnd()}\n${next < 0 ? "" : page.slice(next)}`;
  }
  return page;
}

const cell = (text: string) => text.replaceAll("|", "\\|");
const table = (head: string, rows: string[]) => [head, "|---|---|", ...rows].join("\n");

function optionsTable(options: Options): string {
  const row = ([name, option]: [string, Option]) =>
    `| \`${cell(optionHead(name, option))}\` | ${cell(option.about)} |`;
  return table("| option | |", Object.entries(options).map(row));
}

function sectionOf(command: Description): string {
  const { name, summary, about = [], options = {}, examples } = command;
  const width = Math.max(...examples.map(([line]) => line.length)) + 8;
  const lines = examples.map(([line, does]) => `${`berth ${line}`.padEnd(width)}# ${does}`);
  return [
    `### berth ${name}`,
    `\`${usageOf(command)}\``,
    `${summary}.`,
    ...about,
    ["```", ...lines, "```"].join("\n"),
    ...(Object.keys(options).length > 0 ? [optionsTable(options)] : []),
  ].join("\n\n");
}

const text = await readFile(file, "utf8");
const fresh = withSections(text, {
  "## Exit codes": table(
    "| code | meaning |",
    EXIT_CODES.map(([code, meaning]) => `| ${code} | ${cell(meaning)} |`),
  ),
  "## Options of every command": optionsTable(COMMON),
  "## Commands": (await loadAll()).map(sectionOf).join("\n\n"),
});
if (!process.argv.includes("--check")) await writeFile(file, fresh);
else if (fresh !== text) {
  process.stderr.write(`${PAGE} is stale: run \`npm run generate\`\n`);
  process.exitCode = 1;
}
