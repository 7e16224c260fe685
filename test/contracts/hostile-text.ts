/** The worker of `linear.test.ts`: feeds hostile texts, and records which pattern is running where its parent reads it. */
import { workerData } from "node:worker_threads";
import { pythonDependencies } from "../../services/deployer/builder/detect/python.ts";
import { splitOutput } from "../../services/deployer/runtime/local/logs/log-collector.ts";
import { clipLine, keepNewest } from "../../services/deployer/shared/clip-log.ts";
import { maskSecrets } from "../../services/deployer/shared/mask-secrets.ts";
import { checkGitSource } from "../../services/deployer/sources/git-source.ts";
import { redact } from "../../services/kit/log.ts";

export type Hostile = { patterns: { source: string; flags: string }[]; progress: SharedArrayBuffer };

const MEBIBYTE = 1024 ** 2;
const LONGEST_VALUE = 64 * 1024;

/** Functions that read text from outside and are more than one regular expression. */
export const readers: Record<string, (text: string) => unknown> = {
  redact,
  clipLine: (text) => clipLine(text),
  keepNewest: (text) => keepNewest(text, 1000),
  splitOutput: (text) => splitOutput(Buffer.from(text), true),
  checkGitSource: (repository) => checkGitSource({ repository, branch: repository, contextDir: repository }),
  pythonDependencies,
  "maskSecrets, of many values": (text) => many(text),
  "maskSecrets, of values that begin alike": (text) => alike(text),
  "maskSecrets, of its own beginning": (text) =>
    maskSecrets([1, 0].map((at) => text.slice(at, LONGEST_VALUE)))(text),
};
const many = maskSecrets(Array.from({ length: 1000 }, (_, n) => `value-${n}`));
const alike = maskSecrets(
  [..."abcdefgh-/: =\"'@"].flatMap((one) => [1, 2, 3].map((n) => one.repeat(10_000 + n))),
);

/** Returns megabytes of repeated parts of a pattern, each with an end on which a match may fail. */
function hostileTexts(source: string): string[] {
  const words = [...source.matchAll(/[\w '"=:/@.-]{2,}/g)].map(([word]) => word);
  const units = new Set([...source.replaceAll("\\", ""), ...words, " ", "\n", "a", "0"]);
  return [...units].flatMap((unit) => {
    const text = unit.repeat(MEBIBYTE / unit.length);
    return [`${text}\u0001`, `${text}\n\u0001`];
  });
}

if (workerData) {
  const { patterns, progress } = workerData as Hostile;
  const underWay = new Int32Array(progress);
  for (const [at, { source, flags }] of patterns.entries()) {
    underWay[0] = at;
    const pattern = new RegExp(source, flags);
    for (const text of hostileTexts(source)) text.replace(pattern, "");
  }
  for (const [at, read] of Object.values(readers).entries()) {
    underWay[0] = patterns.length + at;
    for (const text of hostileTexts("a-/:@#=")) read(text);
  }
}
