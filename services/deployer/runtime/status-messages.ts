import { sizes } from "../../kit/sizes.ts";
import { maskSecrets } from "../shared/mask-secrets.ts";
import { excerptCrash } from "./crash-excerpt.ts";

/** An app that runs this long without being available is said to be slow, and why. */
export const SLOW_START_MS = 20_000;

type Slow = {
  /** The value of PORT. */
  port: number;
  healthCheckPath?: string;
  /** The ports on which the app's processes listen, where that is known. */
  listening?: number[];
  /** How the health check was answered last. */
  answer?: { status: number; firstLine: string };
};

/** Returns what keeps an app that runs from being available. */
export function notAnswering({ port, healthCheckPath, listening, answer }: Slow): string {
  if (healthCheckPath !== undefined && (answer || listening?.includes(port) !== false)) {
    const text = answer?.firstLine ? `: “${answer.firstLine}”` : "";
    const how = answer
      ? `answered with ${answer.status}${text}, not with 200–399`
      : "not answered with 200–399";
    return `The app is running, but GET ${healthCheckPath} on PORT (${port}) was ${how}.`;
  }
  const others = (listening ?? []).filter((one) => one !== port);
  const instead =
    others.length > 0
      ? ` It listens on ${others.join(" and ")} instead of the port in the variable PORT.`
      : " An app that serves no requests has to be a service of type worker.";
  return `The app is running, but nothing accepted a connection on PORT (${port}).${instead}`;
}

/** Returns that a release is late, and why if that is known. */
export function notAvailableInTime(deadlineMs: number, why: string | undefined): string {
  const late = `The new release was not available after ${Math.round(deadlineMs / 1000)} s.`;
  return why ? `${late} ${why}` : late;
}

/** Returns what of the last lines of output, oldest first, says why an app ended, with these secrets masked. */
export function quoteOutput(lines: string[], secrets: string[]): string {
  if (lines.length === 0) return "It wrote nothing.";
  const masked = maskSecrets(secrets)(lines.join("\n"));
  return `It wrote:\n${excerptCrash(masked.split("\n")).join("\n")}`;
}

export const RUN_OUT_OF_MEMORY = "It needed more memory than the service's size allows.";

/** Returns that an app was ended because of its memory. */
export function describeOutOfMemory(size: keyof typeof sizes): string {
  return `The app was killed because it used more memory than its size ${size} allows (${sizes[size].memory} MiB).`;
}

const SIGNALS: Record<number, string> = {
  132: "an illegal instruction",
  134: "an abort",
  137: "SIGKILL",
  139: "a segmentation fault",
  143: "SIGTERM",
};

/** Returns how an app ended, by the exit code of its shell. */
export function describeExit(code: number | undefined): string {
  if (code === 0) return "The app ended by itself, with exit code 0. A service has to keep running.";
  if (code === 126) return "The start command is not executable (exit code 126).";
  if (code === 127) return "The start command was not found (exit code 127).";
  const signal = SIGNALS[code ?? -1];
  return `The app ended with exit code ${code}${signal ? `, which is ${signal}` : ""}.`;
}
