import {
  debianPackage,
  fetchProgram,
  findProgram,
  ProgramMissing,
  programsDir,
  type WantedProgram,
} from "../../../services/kit/process/program.ts";

const PROMTOOL: WantedProgram = {
  names: ["promtool"],
  fits: (version) => /^promtool, version [23]\./.test(version),
  sources: { "apt-get": debianPackage(["prometheus"], ["promtool"], { alone: true }) },
};

/**
 * Returns the path of Prometheus's promtool: the one on the PATH, else one that is taken out of Debian's package, once.
 * Where there is none, prints that and returns undefined.
 */
export async function findPromtool(): Promise<string | undefined> {
  const found = await findProgram(PROMTOOL, { folder: programsDir, path: process.env.PATH });
  if (found) return found;
  const progress = (line: string) => console.log(line);
  return fetchProgram(PROMTOOL, { folder: programsDir, progress }).catch((error) => {
    if (!(error instanceof ProgramMissing)) throw error;
    console.log(
      `Skipped: alerts. There is no promtool on the PATH, and none could be fetched: ${error.message}`,
    );
    return undefined;
  });
}
