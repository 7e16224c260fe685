import { spawn } from "node:child_process";
import { once } from "node:events";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { findGoProgram } from "./go-program.ts";

/** Returns the program of Stripe's own mock of its API, or undefined, which is printed, where it cannot be built. */
export const findStripeMock = () => findGoProgram("stripe-mock", "requests to Stripe's own mock of its API");

/** Starts stripe-mock, which checks requests against Stripe's OpenAPI and answers with fixtures. */
export async function startStripeMock(program: string) {
  // It takes a free port itself, and says which: one that was looked for before may be another's by then.
  const server = spawn(program, ["-http-addr", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [server.stdout, server.stderr])
    stream.on("data", (part) => (output = (output + part).slice(-4_000)));
  const ended = once(server, "exit");
  const stop = async () => {
    server.kill("SIGKILL");
    await ended;
  };
  try {
    const port = await eventually("stripe-mock listens", async () => {
      if (server.exitCode !== null) throw new Error(`stripe-mock ended:\n${output}`);
      const listening = /^Listening for HTTP at address: 127\.0\.0\.1:(\d+)$/m.exec(output);
      return listening && Number(listening[1]);
    });
    return { host: "127.0.0.1", port, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
