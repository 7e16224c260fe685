import { VERSION } from "./version.ts";

/** Who reads stdout may have read enough: nothing is left to say. What cannot be written is a result that is not whole. */
function endOutput(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(process.exitCode ?? 0);
  const why = error.code === "ENOSPC" ? "no space is left where it is written to" : error.message;
  process.stderr.write(`Error: The output is not whole: ${why}.\n`);
  process.exit(1);
}

/** Runs the command of these arguments, and sets the exit code of the process. Loads only what that takes. */
export async function main(argv: string[]): Promise<void> {
  process.stdout.on("error", endOutput);
  const [word, ...rest] = argv;
  if (word === undefined || word === "help" || word === "--help" || word === "-h") {
    await printHelp(word === "help" ? rest : []);
  } else if (word === "--version" || word === "-v" || word === "version") {
    process.stdout.write(`${VERSION}\n`);
  } else {
    const { run } = await import("./run.ts");
    await run(word, rest);
  }
}

async function printHelp(words: string[]): Promise<void> {
  const [word, ...rest] = words;
  if (word) return main([word, ...rest, "--help"]);
  const { overview } = await import("./help.ts");
  process.stdout.write(`${overview()}\n`);
}
