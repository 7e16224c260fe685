import { get } from "node:http";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** An app that listens on `localhost` may have either address. */
const ADDRESSES = ["127.0.0.1", "::1"];
const PROBE_TIMEOUT_MS = 5000;
/**
 * Pauses grow with the time waited, so that an app is found within a tenth of the time that it took to start, and with
 * the number of apps that are starting, so that probes do not slow them down.
 */
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS, LATENESS] = [2, 250, 0.1];
let startingApps = 0;
/** A single slow answer is no reason to withhold requests. */
const UNRESPONSIVE_AFTER = 3;

const probe = (host: string, port: number, path: string | undefined) =>
  path === undefined ? accepts(host, port) : answers(host, port, path);

/**
 * Probes a healthy app every `everyMs`, as `waitUntilHealthy` does, and calls `became` when it has not answered three
 * times in a row and when it answers again. Rejects when `signal` aborts.
 */
export async function watchHealth(
  app: { host: string; port: number; path: string | undefined },
  everyMs: number,
  signal: AbortSignal,
  became: (silent: boolean) => void,
): Promise<void> {
  for (let [missed, silent] = [0, false]; ; ) {
    await delay(everyMs, undefined, { signal, ref: false });
    missed = (await probe(app.host, app.port, app.path)) ? 0 : missed + 1;
    signal.throwIfAborted();
    if (silent === missed >= UNRESPONSIVE_AFTER) continue;
    silent = !silent;
    became(silent);
  }
}

/**
 * Waits until the app answers on `port` and returns the address on which it listens: with a path, GET must be answered
 * with 200–399, without one an accepted connection is enough. Rejects only when `signal` aborts.
 */
export async function waitUntilHealthy(
  port: number,
  path: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  startingApps++;
  try {
    return await probeUntilHealthy(port, path, signal);
  } finally {
    startingApps--;
  }
}

async function probeUntilHealthy(
  port: number,
  path: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const begun = performance.now();
  for (;;) {
    for (const host of ADDRESSES) {
      const healthy = await probe(host, port, path);
      signal.throwIfAborted();
      if (healthy) return host;
    }
    const pause = Math.max(SHORTEST_PAUSE_MS, startingApps, (performance.now() - begun) * LATENESS);
    await delay(Math.min(LONGEST_PAUSE_MS, pause), undefined, { signal });
  }
}

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_TIMEOUT_MS });
    const done = (healthy: boolean) => {
      socket.destroy();
      resolve(healthy);
    };
    // On a free port in the range of outgoing connections, a probe may connect to itself.
    socket.once("connect", () => done(socket.localPort !== port));
    socket.once("timeout", () => done(false));
    socket.once("error", () => done(false));
  });
}

function answers(host: string, port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const headers = { host: `localhost:${port}`, "user-agent": "berth-health-check" };
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const request = get({ host, port, path, headers, agent: false, signal });
    const done = (healthy: boolean) => {
      request.destroy();
      resolve(healthy);
    };
    request.once("response", (response) => done(response.statusCode! >= 200 && response.statusCode! < 400));
    request.on("error", () => done(false));
    request.once("close", () => done(false)); // also without an error, after a 101
  });
}

const MAX_LINE = 200;

/** Returns how GET is answered: the status, and the first line of the body; undefined when it is not. */
export async function readAnswer(
  port: number,
  path: string,
): Promise<{ status: number; firstLine: string } | undefined> {
  for (const host of ADDRESSES) {
    const answer = await readFrom(host, port, path);
    if (answer) return answer;
  }
  return undefined;
}

function readFrom(host: string, port: number, path: string) {
  return new Promise<{ status: number; firstLine: string } | undefined>((resolve) => {
    const headers = { host: `localhost:${port}`, "user-agent": "berth-health-check" };
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const request = get({ host, port, path, headers, agent: false, signal });
    request.on("error", () => resolve(undefined));
    request.once("close", () => resolve(undefined));
    request.once("response", (response) => {
      // The first part of the body is enough for its first line, however long the rest is.
      const done = (chunk = "") => {
        const [line = ""] = chunk.split(/\r?\n/);
        resolve({ status: response.statusCode!, firstLine: toPlain(line) });
        request.destroy();
      };
      response
        .setEncoding("utf8")
        .once("data", done)
        .once("end", done)
        .once("error", () => done());
    });
  });
}

const toPlain = (line: string) =>
  line
    .slice(0, MAX_LINE)
    .replace(/[\p{Cc}\p{Cf}]/gu, "")
    .trim();
