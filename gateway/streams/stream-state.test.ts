import { describe, expect, test } from "vitest";
import { problem, unavailable } from "../http/problem.ts";
import { type StreamInput, type StreamState, transition } from "./stream-state.ts";

const opening: StreamState = { phase: "opening", closesAtOnce: false };
const open: StreamState = { phase: "open", paused: false, missedChecks: 0 };
const gone = problem(401, "unauthenticated", "…");

/** What a stream does from a state through inputs: the phase it ends in, and each action by its name. */
function run(state: StreamState, ...inputs: StreamInput[]): string {
  const names: string[] = [];
  let now = state;
  for (const input of inputs) {
    const step = transition(now, input);
    now = step.state;
    names.push(...step.actions.map(({ type }) => type));
  }
  return [...names, now.phase].join(" ");
}

const message = { type: "message", text: "data: x\n\n" } as const;
const heartbeat = { type: "heartbeat" } as const;
const revalidated = (found?: typeof gone) => ({ type: "callerRevalidated", problem: found }) as const;

describe("before the service has sent anything", () => {
  test.each<[string, StreamInput, string]>([
    [
      "its first message opens the stream, whose caller is checked",
      message,
      "open write revalidateCaller open",
    ],
    ["its end without one opens and closes it", { type: "ended", problem: undefined }, "open close closed"],
    ["its refusal is an ordinary response", { type: "ended", problem: gone }, "refuse closed"],
    ["its silence is refused", { type: "timedOut" }, "refuse closed"],
    ["a client that leaves ends the call", { type: "clientLeft" }, "abandon closed"],
    ["a heartbeat does not matter", heartbeat, "opening"],
  ])("%s", (_, input, done) => expect(run(opening, input)).toBe(done));

  test("a shutdown lets it open, so that its client is told to reconnect by its end", () => {
    expect(run(opening, { type: "shutdown" }, message)).toBe("open close closed");
  });
});

describe("while it is open", () => {
  test.each<[string, StreamInput[], string]>([
    [
      "a client that reads slowly pauses the call once",
      [{ type: "bufferFull" }, { type: "bufferFull" }],
      "pauseCall open",
    ],
    ["and resumes it", [{ type: "bufferFull" }, { type: "bufferDrained" }], "pauseCall resumeCall open"],
    ["a heartbeat checks the caller", [heartbeat], "write revalidateCaller open"],
    [
      "without a comment while the client reads slowly",
      [{ type: "bufferFull" }, heartbeat],
      "pauseCall revalidateCaller open",
    ],
    ["an invalidated caller is checked at once", [{ type: "callerInvalidated" }], "revalidateCaller open"],
    ["a caller who may not read on is the end", [revalidated(gone)], "close closed"],
    [
      "nothing follows its end",
      [{ type: "shutdown" }, message, heartbeat, revalidated(gone)],
      "close closed",
    ],
  ])("%s", (_, inputs, done) => expect(run(open, ...inputs)).toBe(done));

  test("identity may be unreachable twice in a row, not three times", () => {
    const missed = revalidated(unavailable());
    expect(run(open, missed, missed, revalidated(), missed, missed)).toBe("open");
    expect(run(open, missed, missed, missed)).toBe("close closed");
  });
});
