import { type Problem, unavailable } from "../http/problem.ts";

/** How often in a row identity may be unreachable when a stream's caller is revalidated. */
const MAX_MISSED_CHECKS = 3;

/**
 * `opening`: the service was called and has sent nothing yet; with `closesAtOnce` its first message ends the
 * stream. `open`: the client has the response head; `paused` while it reads too slowly. `closed`: nothing follows.
 */
export type StreamState =
  | { phase: "opening"; closesAtOnce: boolean }
  | { phase: "open"; paused: boolean; missedChecks: number }
  | { phase: "closed" };

/** What happens to a stream. */
export type StreamInput =
  | { type: "message"; text: string }
  | { type: "ended"; problem: Problem | undefined }
  | { type: "timedOut" }
  | { type: "clientLeft" }
  | { type: "bufferFull" }
  | { type: "bufferDrained" }
  | { type: "heartbeat" }
  | { type: "callerInvalidated" }
  | { type: "callerRevalidated"; problem: Problem | undefined }
  | { type: "shutdown" };

/** What is done about it. `refuse` answers without a stream, `close` ends one; both, and `abandon`, end the call. */
export type StreamAction =
  | { type: "open" }
  | { type: "write"; text: string }
  | { type: "refuse"; problem: Problem }
  | { type: "close"; problem: Problem | undefined }
  | { type: "abandon" }
  | { type: "pauseCall" }
  | { type: "resumeCall" }
  | { type: "revalidateCaller" };

type Step = { state: StreamState; actions: StreamAction[] };
type Opening = Extract<StreamState, { phase: "opening" }>;
type Open = Extract<StreamState, { phase: "open" }>;

const HEARTBEAT = ":\n\n";

const closed = (...actions: StreamAction[]): Step => ({ state: { phase: "closed" }, actions });

/** Returns the next state of a stream, and the actions in their order. Input that does not matter changes nothing. */
export function transition(state: StreamState, input: StreamInput): Step {
  if (state.phase === "opening") return whileOpening(state, input);
  if (state.phase === "open") return whileOpen(state, input);
  return { state, actions: [] };
}

function whileOpening(state: Opening, input: StreamInput): Step {
  switch (input.type) {
    case "message":
      if (state.closesAtOnce) return closed({ type: "open" }, { type: "close", problem: undefined });
      return {
        state: { phase: "open", paused: false, missedChecks: 0 },
        // What was revoked since the request was admitted had no stream to end.
        actions: [{ type: "open" }, { type: "write", text: input.text }, { type: "revalidateCaller" }],
      };
    case "ended":
      if (input.problem) return closed({ type: "refuse", problem: input.problem });
      return closed({ type: "open" }, { type: "close", problem: undefined });
    case "timedOut":
      return closed({ type: "refuse", problem: unavailable() });
    case "clientLeft":
      return closed({ type: "abandon" });
    case "shutdown":
      return { state: { ...state, closesAtOnce: true }, actions: [] };
    default:
      return { state, actions: [] };
  }
}

function whileOpen(state: Open, input: StreamInput): Step {
  switch (input.type) {
    case "message":
      return { state, actions: [{ type: "write", text: input.text }] };
    case "ended":
      return closed({ type: "close", problem: input.problem });
    case "clientLeft":
      return closed({ type: "close", problem: undefined });
    case "shutdown":
      return closed({ type: "close", problem: unavailable() });
    case "bufferFull":
      return { state: { ...state, paused: true }, actions: state.paused ? [] : [{ type: "pauseCall" }] };
    case "bufferDrained":
      return { state: { ...state, paused: false }, actions: [{ type: "resumeCall" }] };
    case "callerInvalidated":
      return { state, actions: [{ type: "revalidateCaller" }] };
    case "heartbeat": {
      const write: StreamAction[] = state.paused ? [] : [{ type: "write", text: HEARTBEAT }];
      return { state, actions: [...write, { type: "revalidateCaller" }] };
    }
    case "callerRevalidated":
      return afterRevalidation(state, input.problem);
    default:
      return { state, actions: [] };
  }
}

function afterRevalidation(state: Open, problem: Problem | undefined): Step {
  const missedChecks = problem?.status === 503 ? state.missedChecks + 1 : 0;
  const tolerable = !problem || (missedChecks > 0 && missedChecks < MAX_MISSED_CHECKS);
  return tolerable ? { state: { ...state, missedChecks }, actions: [] } : closed({ type: "close", problem });
}
