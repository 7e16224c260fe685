import { resendDeadLetters } from "./events/dead-letters.ts";
import { withBus } from "./events/with-bus.ts";
import { type Done, runCommand } from "./process/command.ts";
import { optionalText, readConfig, serviceFields } from "./process/config.ts";

/** Sends the dead letters of a consumer, or of all, again: `NATS_URL=… npm run replay [CONSUMER]`. Returns how many. */
export function replay(natsUrl: string, consumer: string | undefined, withinMs?: number): Promise<number> {
  return withBus(natsUrl, "replay", (connected) => resendDeadLetters(connected, consumer), withinMs);
}

async function main(): Promise<Done> {
  const config = readConfig(process.env, {
    natsUrl: serviceFields.natsUrl,
    consumer: optionalText("CONSUMER"),
  });
  const sent = await replay(config.natsUrl, process.argv[2] ?? config.consumer);
  return { output: `${sent} events sent again\n`, exitCode: 0 };
}

if (import.meta.main) await runCommand(main);
