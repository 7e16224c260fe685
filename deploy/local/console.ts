import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const BUILD = join(import.meta.dirname, "../../clients/console/build/main.ts");
const BUILD_MS = 120_000;

/**
 * Builds the console unless it is built of these sources. Where that is not possible, there is none, and a line says why. In
 * a process of its own, which takes the memory of the build with it.
 */
export async function buildConsole(line: (text: string) => void): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [BUILD], { timeout: BUILD_MS });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    line(`The console could not be built: ${(stderr || message).trim().split("\n")[0]}`);
  }
}
