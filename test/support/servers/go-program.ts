import { existsSync } from "node:fs";
import { works } from "../../../deploy/cluster/commands.ts";
import { buildPrograms, type Program, programPath } from "../../../deploy/cluster/node/programs.ts";

/** Two minutes on a machine that does nothing else, the first time, for the largest. */
const BUILD_MS = 20 * 60_000;

/** What Go prints when it cannot fetch a module. */
const UNREACHABLE = /dial tcp|no such host|proxyconnect|i\/o timeout|TLS handshake|GOPROXY|reading https?:/;

/**
 * Returns the path of a program, which is built from its Go module where it was not before. Without Go, without its
 * module proxy, or on a machine that has other things to do all the time, prints that `what` is skipped and returns
 * undefined.
 */
export async function findGoProgram(name: Program, what: string): Promise<string | undefined> {
  const program = await programPath(name);
  if (existsSync(program)) return program;
  const skip = (why: string) => console.log(`Skipped: ${what}. ${why}`);
  if (!(await works("go", ["version"]))) return void skip("There is no Go to build it with.");
  const signal = AbortSignal.timeout(BUILD_MS);
  try {
    await buildPrograms([name], { signal });
    return program;
  } catch (error) {
    if (signal.aborted) return void skip(`It was not built within ${BUILD_MS / 60_000} minutes.`);
    const lines = (error as Error).message.split("\n");
    const unreachable = lines.find((line) => UNREACHABLE.test(line));
    if (unreachable === undefined) throw error;
    return void skip(`Its module cannot be fetched: ${unreachable.trim()}`);
  }
}
