import { connectBus } from "./events/bus.ts";
import { resendDeadLetters } from "./events/dead-letters.ts";
import { createLog } from "./log.ts";
import { type Done, runCommand } from "./process/command.ts";
import { optionalText, readConfig, serviceFields } from "./process/config.ts";

/** Sends the dead letters of a consumer, or of all, again: `NATS_URL=… npm run replay [CONSUMER]`. Returns how many. */
export async function replay(natsUrl: string, consumer: string | undefined): Promise<number> {
  const bus = connectBus(natsUrl, "replay", createLog("replay", "error"));
  const sent = await resendDeadLetters(await bus.connected, consumer);
  await bus.close();
  return sent;
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
