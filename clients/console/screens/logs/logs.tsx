import { useMutation } from "@tanstack/react-query";
import { useEffect, useReducer, useRef, useState } from "react";
import type { LogLine, ServiceAddress } from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { type Line, Lines, plain } from "../../design/lines.tsx";
import { Failure, LiveMark } from "../../design/state.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { useFollow } from "../../live/follow.ts";
import { useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

/** Beyond it the oldest lines are forgotten: they are still at the API. */
const MOST_LINES = 100_000;
const FIRST_LINES = 500;
/** For so long a log that is not seen goes on where it was. */
const GO_ON_MS = 300_000;
/** A burst of lines is drawn together. */
const DRAW_MS = 100;

/** What the processes of a service write, as they write it. */
export function Logs() {
  const at = useServiceAddress();
  const [version, setVersion] = useState<number>();
  return <ReleaseLogs key={`${at.service} ${version}`} at={at} version={version} onVersion={setVersion} />;
}

type ReleaseLogsProps = {
  at: ServiceAddress;
  version: number | undefined;
  onVersion: (version: number | undefined) => void;
};

function ReleaseLogs({ at, version, onVersion }: ReleaseLogsProps) {
  const log = useLog();
  const [isPaused, setIsPaused] = useState(false);
  const state = useServiceState(at.service);
  const filter = version === undefined ? {} : { version };
  const liveness = useFollow<LogEvent>(
    `logs ${at.environmentId} ${at.service} ${version}`,
    (options, resuming) => {
      const last = resuming ? log.last() : undefined;
      if (last === undefined) log.begin();
      const onOpen = () => {
        log.isOpen();
        options.onOpen?.();
      };
      const from = { ...options, onOpen, ...(last !== undefined && { lastEventId: last }) };
      return log.read(berth.logs.follow(at, { ...filter, limit: FIRST_LINES }, from));
    },
    log.add,
  );
  const older = useMutation({
    mutationFn: () => berth.logs.list(at, { ...filter, limit: 1_000 }).page(log.cursor()),
    onSuccess: ({ data, page }) => log.addOlder(data, page.hasMore ? page.nextCursor : undefined),
  });
  const shown = log.shown(isPaused);
  const newest = state?.release?.version;
  return (
    <section>
      <h2>
        {texts.service.tabs.logs} <LiveMark liveness={liveness} />
      </h2>
      {liveness.status === "over" && liveness.error !== undefined && <Failure error={liveness.error} />}
      {log.isFull() && <p className="hint">{texts.logs.dropped(MOST_LINES)}</p>}
      <Alert error={older.error} />
      <Lines lines={shown} label={texts.logs.label} name={at.service} empty={texts.logs.empty}>
        {newest !== undefined && (
          <select
            aria-label={texts.logs.release}
            value={version ?? ""}
            onChange={({ target }) => onVersion(target.value === "" ? undefined : Number(target.value))}
          >
            <option value="">{`${texts.logs.release}: ${texts.logs.allReleases}`}</option>
            <option value={newest}>{`${texts.logs.release}: v${newest}`}</option>
          </select>
        )}
        <button
          type="button"
          aria-pressed={isPaused}
          onClick={() => {
            if (!isPaused) log.hold();
            setIsPaused(!isPaused);
          }}
        >
          {isPaused ? `${texts.logs.resume}, ${texts.logs.waiting(log.waiting())}` : texts.logs.pause}
        </button>
        {log.hasOlder() && (
          <button
            type="button"
            aria-disabled={older.isPending}
            onClick={() => older.isPending || older.mutate()}
          >
            {texts.logs.older}
          </button>
        )}
      </Lines>
    </section>
  );
}

type LogEvent = { data: LogLine; id?: string };

const toLine = (id: number, { message, stream, replica, version, timestamp }: LogLine): Line => ({
  id,
  text: `${timestamp.slice(11, 23)}  ${plain(message)}`,
  note: `${timestamp}, ${texts.logs.from(replica, version)}`,
  ...(stream === "stderr" && { tone: "error" as const }),
});

/** The lines of a log that are kept here, outside of what is drawn: they may arrive by the thousand. */
function useLog() {
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const kept = useRef({
    lines: [] as Line[],
    held: [] as Line[],
    first: 0,
    next: 0,
    isNew: true,
    isFull: false,
    cursor: "",
    end: false,
    last: "",
    leftAt: undefined as number | undefined,
  });
  const all = kept.current;
  const drawSoon = () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      all.lines = all.lines.slice();
      if (all.lines.length > MOST_LINES) {
        all.lines = all.lines.slice(-MOST_LINES);
        all.isFull = true;
      }
      draw();
    }, DRAW_MS);
  };
  return {
    begin() {
      all.isNew = true;
    },
    add({ data, id = "" }: LogEvent) {
      // What is older than the first line is where that line is.
      if (all.isNew)
        Object.assign(all, {
          lines: [],
          first: all.next,
          isNew: false,
          isFull: false,
          cursor: id,
          end: false,
        });
      all.lines.push(toLine(all.next++, data));
      all.last = id;
      drawSoon();
    },
    isOpen() {
      all.leftAt = undefined;
    },
    /** Yields what a stream does, and notes when it was left. */
    async *read(events: AsyncIterable<LogEvent>) {
      try {
        yield* events;
      } finally {
        all.leftAt ??= Date.now();
      }
    },
    /**
     * Returns what to go on after, so that a reader finds the lines where they were. After a while there is nothing: what was
     * missed meanwhile may be more than anybody reads.
     */
    last: () => (Date.now() - (all.leftAt ?? 0) < GO_ON_MS ? all.last || undefined : undefined),
    /** Adds a page of what is older. The place of a line may lead to the line itself, which is here already. */
    addOlder(page: LogLine[], cursor: string | undefined) {
      const older = page.toReversed().map((line) => toLine(0, line));
      const [newest, oldest] = [older.at(-1), all.lines[0]];
      if (newest?.text === oldest?.text && newest?.note === oldest?.note) older.pop();
      for (const line of older.toReversed()) line.id = --all.first;
      all.lines = [...older, ...all.lines];
      Object.assign(all, { cursor: cursor ?? "", end: cursor === undefined });
      drawSoon();
    },
    hold() {
      all.held = all.lines.slice();
    },
    shown: (isHeld: boolean) => (isHeld ? all.held : all.lines),
    waiting: () => Math.max(0, (all.lines.at(-1)?.id ?? 0) - (all.held.at(-1)?.id ?? 0)),
    cursor: () => (all.cursor === "" ? undefined : all.cursor),
    hasOlder: () => all.lines.length > 0 && !all.end && !all.isFull,
    isFull: () => all.isFull,
  };
}
