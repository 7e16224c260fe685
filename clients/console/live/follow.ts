import { useEffect, useRef, useState } from "react";
import { isRefusal, type StreamOptions } from "../../typescript/src/index.ts";
import { leaveWithoutSession } from "../session/api.ts";

/** `lost`: what is shown may be out of date, and another try is under way. `over`: there is nothing more to come. */
export type Liveness = { status: "connecting" | "live" | "lost" | "over"; error?: unknown };

/** Refusals after which the same may succeed; the session's, when somebody signs in again. */
const MAY_PASS = new Set(["rate_limited", "unavailable", "internal", "unauthenticated"]);

const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

/**
 * Follows a stream while its screen is seen: a hidden tab has none, because a user may have only a few at a time. `open`
 * is called anew for each `key`, and again after a connection was lost; `resuming` is whether items came before.
 */
export function useFollow<T>(
  key: string | undefined,
  open: (options: StreamOptions, resuming: boolean) => AsyncIterable<T>,
  onItem: (item: T) => void,
): Liveness {
  const [liveness, setLiveness] = useState<Liveness>({ status: "connecting" });
  const isSeen = useIsSeen();
  const latest = useRef({ open, onItem });
  latest.current = { open, onItem };
  const follows = key !== undefined && isSeen;
  const before = useRef<string>(undefined);

  useEffect(() => {
    if (!follows) return;
    const stop = new AbortController();
    const { signal } = stop;
    if (before.current !== key) setLiveness({ status: "connecting" });

    async function run() {
      for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        try {
          const onReconnect = (error: unknown) => setLiveness({ status: "lost", error });
          // Of what did not change meanwhile nothing arrives, and it is up to date all the same.
          const onOpen = () => setLiveness((now) => (now.status === "live" ? now : { status: "live" }));
          const resuming = before.current === key;
          for await (const item of latest.current.open({ signal, onReconnect, onOpen }, resuming)) {
            before.current = key;
            pauseMs = FIRST_PAUSE_MS;
            latest.current.onItem(item);
          }
          return setLiveness({ status: "over" });
        } catch (error) {
          if (signal.aborted || leaveWithoutSession(error)) return;
          const isLost = !isRefusal(error) || MAY_PASS.has(error.code);
          setLiveness({ status: isLost ? "lost" : "over", error });
          if (!isLost) return;
        }
        await nextTry(pauseMs, signal);
      }
    }
    void run();
    return () => stop.abort();
  }, [key, follows]);
  return liveness;
}

/** Resolves after a pause, or as soon as the browser is online again. */
function nextTry(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      resolve();
    };
    const timer = setTimeout(go, ms);
    addEventListener("online", go);
    signal.addEventListener("abort", go, { once: true });
  });
}

/** Long enough to look at another tab and come back. */
const UNSEEN_MS = 10_000;

/** Whether somebody sees this tab, or did a moment ago. */
export function useIsSeen(): boolean {
  const [isSeen, setIsSeen] = useState(!document.hidden);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => setIsSeen(false), UNSEEN_MS);
      else setIsSeen(true);
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return isSeen;
}
