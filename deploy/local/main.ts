import { takeDataFolder } from "./data/data-folder.ts";
import { localInfoIn } from "./data/local-info.ts";
import { followLogs } from "./data/logs.ts";
import { exitCodes, StartFailure } from "./failure.ts";
import { createPlatform } from "./platform.ts";
import { programs } from "./programs/programs.ts";
import { createDisplay } from "./terminal/display.ts";
import { help, type Options, readOptions } from "./terminal/options.ts";
import { printsToJournal, summary } from "./terminal/summary.ts";
import { systemdUnit } from "./terminal/unit.ts";

/** Starts the platform, runs it until a signal arrives, stops it, and returns the exit code. */
async function run(options: Options): Promise<number> {
  const began = Date.now();
  const { folder, lock } = await takeDataFolder(options.data);
  const display = createDisplay(process.stdout, !options.verbose);
  const platform = createPlatform(options, folder, display);
  const localInfo = localInfoIn(folder.dir);
  const names = ["postgres", "nats", ...programs.map(({ name }) => name)];
  const logs = options.verbose ? followLogs(names.map(folder.log), display.line) : undefined;
  const stopRequest = stopRequested(() => platform.kill());
  let failure: unknown;
  try {
    const started = platform.start().then(async ({ info, ...about }) => {
      await localInfo.write(info);
      await lock.announce(info.origin);
      display.close();
      const seconds = (Date.now() - began) / 1000;
      const journal = printsToJournal();
      const console = process.env.CONSOLE !== "off";
      display.line(await summary(info, { data: options.data, seconds, journal, console, ...about }));
    });
    started.catch(() => {}); // A stop makes a start under way fail, which is no error then.
    await Promise.race([stopRequest, started.then(() => stopRequest)]);
    display.line("Stopping …");
  } catch (error) {
    failure = error;
  }
  display.close();
  await localInfo.remove();
  await platform.stop();
  await logs?.stop();
  lock.release();
  if (failure !== undefined) throw failure;
  display.line("Stopped.");
  return 0;
}

/** Resolves at the first request to stop; a second one calls `kill`. */
function stopRequested(kill: () => void): Promise<void> {
  return new Promise((resolve) => {
    let first: number | undefined;
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => {
        // npm forwards a Ctrl-C that the terminal has already sent here: within 300 ms it is the same one.
        if (first !== undefined && Date.now() - first > 300) kill();
        first ??= Date.now();
        resolve();
      });
    }
  });
}

process.stdout.on("error", () => {}); // The reader of a pipe may exit; the platform keeps running.
try {
  const options = readOptions(process.argv.slice(2), process.env);
  if (options.help) console.log(help);
  else if (options.printUnit) console.log((await systemdUnit(options)).trimEnd());
  else process.exitCode = await run(options);
} catch (error) {
  const known = error instanceof StartFailure;
  console.error(known ? error.message : error);
  process.exitCode = exitCodes[known ? error.kind : "internal"];
}
process.exit();
