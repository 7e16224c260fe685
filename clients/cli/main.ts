import { VERSION } from "./version.ts";

/** Runs the command of these arguments, and sets the exit code of the process. Loads only what that takes. */
export async function main(argv: string[]): Promise<void> {
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
