import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectDir } from "../../../deploy/local/terminal/options.ts";
import { createRandom } from "../../../services/kit/testing/random.ts";
import { startMailbox } from "../../../services/kit/testing/smtp-server.ts";
import { runModel } from "../../model/run.ts";
import type { Fence } from "../../model/statements/fences.ts";
import { CHECKS, look } from "../checks/check.ts";
import { createChecking } from "../checks/checking.ts";
import { steadyPace } from "../clients/pace.ts";
import { createRecord } from "../clients/record.ts";
import { prepareShared } from "../clients/shared.ts";
import { work } from "../clients/work.ts";
import { inflictFaults, untilReady } from "../faults/inflict.ts";
import { createFaultLog } from "../faults/log.ts";
import { startComposed } from "../platform/composed.ts";
import { createSay } from "../run.ts";
import { type Load, type SeededFault, seededFaults } from "../seeded-faults.ts";
import { environmentToPlant } from "./planted.ts";

type Options = { only?: string | undefined; clean: boolean; seed: number };
type Say = (text: string) => void;

/** What found a fault, and how long its load had run; undefined when nothing did. */
type Found = { by: string; seconds: number } | undefined;

/** What holds comes true within this on a machine that is busy: a rule that waits longer than this is broken. */
const PATIENCE_MS = 45_000;

const PAUSE_MS = 50;
/** Of so many schedules, one at least breaks a rule where a fence is missing. */
const MODEL_SCHEDULES = 100_000;

/** Plants the faults one after another and looks for them. Returns whether each was found, or with `clean` none. */
export async function findFaults({ only, clean, seed }: Options): Promise<boolean> {
  const chosen = seededFaults.filter(({ name }) => only === undefined || name.includes(only));
  if (chosen.length === 0) throw new Error(`No fault is called ${only}`);
  const say = createSay();
  const lines: string[] = [];
  for (const fault of chosen) {
    say(`${clean ? "without" : "with"}: ${fault.name}`);
    const verdict = await find(fault, { clean, seed }, say).then(
      (found) => ({ ok: (found !== undefined) !== clean, what: describe(found) }),
      (error: Error) => ({ ok: false, what: `not looked for: ${error.message}` }),
    );
    lines.push(`${verdict.ok ? "ok  " : "MISS"}  ${fault.name}: ${verdict.what}`);
    say(lines.at(-1)!);
  }
  for (const line of lines) console.log(line);
  return lines.every((line) => line.startsWith("ok"));
}

const describe = (found: Found) =>
  found ? `found after ${found.seconds.toFixed(0)} s by: ${found.by}` : "not found";

async function find(fault: SeededFault, options: Pick<Options, "clean" | "seed">, say: Say): Promise<Found> {
  const { clean, seed } = options;
  if (!("changes" in fault)) return findByModel(fault.foundBy.model, options);
  const { foundBy, changes } = fault;
  const dir = await mkdtemp(join(tmpdir(), "berth-seeded-"));
  try {
    const note = join(dir, "planted");
    const env = clean ? {} : environmentToPlant(changes, note);
    const requirePlanted = async () => {
      const planted = await readFile(note, "utf8").catch(() => "");
      const missing = clean ? undefined : changes.find(({ file }) => !planted.includes(file));
      if (missing) throw new Error(`No process loaded ${missing.file}: nothing was planted`);
    };
    if ("test" in foundBy) {
      const found = await findByTest(foundBy, env);
      await requirePlanted();
      return found;
    }
    const { under, checks } = foundBy;
    return await findByLoad({ dir: join(dir, "data"), env, under, checks, seed, requirePlanted, say });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Runs the model of the deployer with fences left out, until a schedule breaks a rule; with all of them none does. */
async function findByModel(
  removed: Fence[],
  { clean, seed }: Pick<Options, "clean" | "seed">,
): Promise<Found> {
  const whole = await runModel({ schedules: MODEL_SCHEDULES / 100, seed, shrinkMs: 0 });
  if (whole.failure) throw new Error(`The model breaks a rule without a fault: ${whole.failure.message}`);
  if (clean) return undefined;
  const { failure, seconds } = await runModel({ schedules: MODEL_SCHEDULES, seed, removed, shrinkMs: 0 });
  return failure && { by: `test/model: ${failure.message}`, seconds };
}

/** Runs a test with the fault planted: it has to fail. */
async function findByTest(
  { test, named }: { test: string; named: string },
  env: Record<string, string>,
): Promise<Found> {
  const began = Date.now();
  const config = join(import.meta.dirname, "vitest.config.ts");
  const vitest = join(projectDir, "node_modules/vitest/vitest.mjs");
  const { NODE_OPTIONS: _, ...planted } = env;
  const child = spawn(
    process.execPath,
    [vitest, "run", "--config", config, "--root", projectDir, test, "-t", named],
    {
      cwd: projectDir,
      env: { ...process.env, ...planted },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (text) => {
      output += text;
    });
  const [code] = (await once(child, "close")) as [number | null];
  if (code === 0) return undefined;
  if (!output.includes("AssertionError"))
    throw new Error(`The test did not come to its assertions:\n${output}`);
  return { by: `${test}: ${named}`, seconds: (Date.now() - began) / 1000 };
}

type Search = {
  dir: string;
  env: Record<string, string>;
  under: Load;
  checks: string[];
  seed: number;
  requirePlanted: () => Promise<void>;
  say: Say;
};

/** Runs rounds of load, each followed by the checks, until one of them fails. */
async function findByLoad(search: Search): Promise<Found> {
  const { under, checks, seed, requirePlanted, say } = search;
  const mailbox = await startMailbox();
  const [faults, record, pace] = [createFaultLog(), createRecord(), steadyPace(PAUSE_MS)];
  const platform = await startComposed({ dir: search.dir, smtpUrl: mailbox.url, extra: search.env });
  const began = Date.now();
  const found = (by: string): Found => ({ by, seconds: (Date.now() - began) / 1000 });
  try {
    await requirePlanted();
    const shared = await prepareShared(platform, record, { mailbox, faults });
    const checking = createChecking({ platform, shared, record }, PATIENCE_MS);
    const watched = checks.includes("answers as documented");
    const isWrong = () => watched && record.wrong.length > 0;
    for (let round = 0; round < under.rounds; round++) {
      const until = Date.now() + under.roundSeconds * 1_000;
      const over = () => Date.now() > until || isWrong();
      const random = (n: number) => createRandom(seed * 1_000 + round * 100 + n);
      const { clients: kinds, schedule } = under;
      const crew = { clients: kinds.length, kinds, pace, random, over, crew: `r${round}c` };
      await Promise.all([
        inflictFaults(platform, faults, random(99), { schedule, over }),
        work(platform, shared, record, crew),
      ]);
      say(`round ${round + 1}: ${record.sent.length} requests, ${record.effects.length} keyed effects`);
      await untilReady(platform);
      for (const check of CHECKS.filter(({ name }) => checks.includes(name)))
        if ((await look(check, checking, say)).value > 0) return found(check.name);
    }
    return undefined;
  } finally {
    await platform.stop();
    await mailbox.stop();
  }
}
