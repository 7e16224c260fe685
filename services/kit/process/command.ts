import { causeOf } from "../failures.ts";

/** What a command of an operator has to say, and its exit code; with one above 0 it is said on stderr. */
export type Done = { output: string; exitCode: number };

/**
 * Runs a command of an operator. What it throws is a sentence on stderr, without a stack, and exit code 1; so is what
 * fails beside it, such as a connection that nothing waits for.
 */
export async function runCommand(run: () => Promise<Done>): Promise<void> {
  process.once("uncaughtException", (error) => {
    process.stderr.write(toFailure(error).output);
    process.exit(1);
  });
  const { output, exitCode } = await run().catch(toFailure);
  (exitCode === 0 ? process.stdout : process.stderr).write(output);
  process.exitCode = exitCode;
}

function toFailure(error: Error): Done {
  return { output: `${causeOf(error.cause ?? error)}\n`, exitCode: 1 };
}
