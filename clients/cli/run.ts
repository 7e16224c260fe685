import { type Command, parseCommand } from "./command.ts";
import type { CommonValues } from "./description.ts";
import { EXIT, usage } from "./failure.ts";
import { ENTRIES, loadAll } from "./registry.ts";
import { createTerminal } from "./terminal/terminal.ts";

/** Runs a command, prints why it ended, and sets the exit code of the process. */
export async function run(word: string, rest: string[]): Promise<void> {
  // Before the arguments are read: a mistake in them is reported as asked, too.
  const io = createTerminal(rest.includes("--json") && !rest.slice(0, rest.indexOf("--json")).includes("--"));
  const canceling = new AbortController();
  let context: { whenCanceled: string[] } | undefined;
  try {
    const entry = ENTRIES.find((each) => each.word === word);
    if (!entry)
      throw unknownCommand(
        word,
        ENTRIES.map((each) => each.word),
      );
    const commands = await entry.load();
    const found = commandOf(word, commands, rest);
    if (!found) {
      const { helpOf } = await import("./help.ts");
      process.stdout.write(`${helpOf(word, commands)}\n`);
      return;
    }
    const { args, options, rest: command } = parseCommand(found.command, found.argv);
    if (options.help) {
      const { commandHelp } = await import("./help.ts");
      process.stdout.write(`${commandHelp(found.command)}\n`);
      return;
    }
    const { createContext } = await import("./context.ts");
    const ctx = createContext({
      io,
      common: options as CommonValues,
      signal: canceling.signal,
      loadCommands: loadAll,
    });
    context = ctx;
    listenForSignals(canceling);
    const code = await found.command.run({ args, options: options as never, rest: command }, ctx);
    process.exitCode = code ?? EXIT.ok;
  } catch (error) {
    const { report } = await import("./report.ts");
    process.exitCode = report(
      io,
      canceling.signal.aborted ? canceling.signal.reason : error,
      context?.whenCanceled,
    );
  }
}

/** Returns the command that the words name, and its arguments; undefined when help of the whole word is asked. */
function commandOf(word: string, commands: Command[], rest: string[]) {
  const [second = ""] = rest;
  const sub = commands.find(({ name }) => name === `${word} ${second}`);
  if (sub) return { command: sub, argv: rest.slice(1) };
  if (commands.length > 1 && (second === "--help" || second === "-h")) return undefined;
  // A word with several commands lists by itself.
  return { command: commands.find(({ name }) => name === word) ?? commands[0]!, argv: rest };
}

function unknownCommand(word: string, words: string[]): Error {
  const near = words.find(
    (each) => each.startsWith(word) || distance(each, word) <= Math.min(2, word.length / 3),
  );
  return usage(`There is no command ${JSON.stringify(word)}.`, near ? `berth ${near}` : "berth help");
}

/** Returns how many letters differ (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++)
      next.push(Math.min(row[j]! + (letter === b[j] ? 0 : 1), row[j + 1]! + 1, next[j]! + 1));
    row = next;
  }
  return row.at(-1)!;
}

/** The first signal ends what the command waits for, the second one the process. */
function listenForSignals(canceling: AbortController): void {
  for (const [signal, code] of [
    ["SIGINT", EXIT.canceled],
    ["SIGTERM", 143],
  ] as const) {
    process.on(signal, () => {
      if (canceling.signal.aborted) process.exit(code);
      canceling.abort(Object.assign(new Error("Canceled."), { name: "Canceled", exitCode: code }));
    });
  }
}
