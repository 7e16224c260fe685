import { useEffect, useState } from "react";
import { berth } from "../session/api.ts";
import { useFollow, useIsSeen } from "./follow.ts";
import { queries } from "./queries.ts";

/** What was read of billing changes when a notification about it arrives: nothing else says so. */
const BILLING = ["billing"];
export const FEED = ["notifications"];
export const UNREAD = ["unread"];

type FeedEvent = Awaited<ReturnType<ReturnType<typeof berth.notifications.follow>["next"]>>["value"] & object;

/** A burst of news is read at once, and then as often. */
const READ_MS = 2_000;
/** What was read a moment ago, and whether there is news of it since. */
const justRead = new Map<string, boolean>();

function readAgain(queryKey: string[]): void {
  const name = queryKey.join();
  if (justRead.has(name)) return void justRead.set(name, true);
  justRead.set(name, false);
  void queries.invalidateQueries({ queryKey });
  setTimeout(() => {
    const hasNews = justRead.get(name);
    justRead.delete(name);
    if (hasNews) readAgain(queryKey);
  }, READ_MS);
}

function take({ event, data }: FeedEvent): void {
  if (event === "unread") {
    // What a request answers that is under way may be older.
    void queries.cancelQueries({ queryKey: UNREAD }, { silent: true });
    queries.setQueryData(UNREAD, data);
  }
  if (event === "notification" && data.kind.startsWith("billing.")) readAgain(BILLING);
  readAgain(FEED);
}

/**
 * Follows a user's feed, once for all tabs of the browser that are seen, because a user may have only a few streams at a
 * time: the tab that holds the lock passes on what arrives. Returns whether this tab has lost its connection.
 */
export function useFeed(userId: string): boolean {
  const name = `berth-feed-${userId}`;
  const holdsLock = useLock(name, useIsSeen());
  const [channel, setChannel] = useState<BroadcastChannel>();
  useEffect(() => {
    const opened = new BroadcastChannel(name);
    opened.onmessage = ({ data }: MessageEvent<FeedEvent>) => take(data);
    setChannel(opened);
    return () => opened.close();
  }, [name]);
  const { status } = useFollow(
    holdsLock ? name : undefined,
    (options) => berth.notifications.follow(options),
    (event) => {
      take(event);
      channel?.postMessage(event);
    },
  );
  return holdsLock && status === "lost";
}

/** Waits for a lock that one tab of the browser can hold, while it is wanted. Returns whether this one holds it. */
function useLock(name: string, isWanted: boolean): boolean {
  const [isHeld, setIsHeld] = useState(false);
  useEffect(() => {
    if (!isWanted) return;
    const end = new AbortController();
    const hold = () =>
      new Promise<void>((release) => {
        if (end.signal.aborted) return release();
        setIsHeld(true);
        end.signal.addEventListener("abort", () => release());
      });
    navigator.locks.request(name, { signal: end.signal }, hold).catch(() => {});
    return () => {
      end.abort();
      setIsHeld(false);
    };
  }, [name, isWanted]);
  return isHeld;
}
