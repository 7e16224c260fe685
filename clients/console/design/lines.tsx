import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { texts } from "../texts.ts";
import { download } from "./download.ts";

export type Line = { id: number; text: string; note?: string; tone?: "error" };

const LINE_HEIGHT = 20;

type LinesProps = { lines: Line[]; label: string; name: string; empty: string; children?: ReactNode };

/** Lines of output, of which only those that are seen are drawn. It stays at the end until somebody scrolls up. */
export function Lines({ lines, label, name, empty, children }: LinesProps) {
  const [search, setSearch] = useState("");
  const [wraps, setWraps] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const top = useRef(0);
  const wanted = search.toLowerCase();
  const shown = wanted === "" ? lines : lines.filter(({ text }) => text.toLowerCase().includes(wanted));
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => (shown[index] as Line).id,
    overscan: 30,
  });
  const count = shown.length;
  useEffect(() => {
    if (count > 0 && atEnd.current) virtual.scrollToIndex(count - 1, { align: "end" });
  }, [count, virtual]);
  const before = useRef(shown);
  useLayoutEffect(() => {
    const moved = movedBy(before.current, shown);
    before.current = shown;
    // Whoever reads goes on reading the same line, whatever comes and goes above it.
    if (box.current && moved !== 0 && !atEnd.current) box.current.scrollTop += moved * LINE_HEIGHT;
  }, [shown]);
  const onScroll = () => {
    if (!box.current) return;
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    // Far from the end is also who was there until lines arrived a moment ago: only somebody who goes up leaves it.
    if (scrollHeight - scrollTop - clientHeight < 2 * LINE_HEIGHT) atEnd.current = true;
    else if (scrollTop < top.current) atEnd.current = false;
    top.current = scrollTop;
  };
  const items = virtual.getVirtualItems();
  return (
    <>
      <div className="tools">
        <input
          type="search"
          aria-label={texts.logs.search}
          placeholder={texts.logs.search}
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <label className="check">
          <input
            type="checkbox"
            checked={wraps}
            onChange={({ target }) => {
              setWraps(target.checked);
              // The lines are of another height now.
              virtual.measure();
            }}
          />
          {texts.logs.wrap}
        </label>
        {children}
        <button
          type="button"
          onClick={() => download(`${name}.log`, shown.map(({ text }) => `${text}\n`).join(""))}
        >
          {texts.logs.download}
        </button>
        <span className="hint">{texts.logs.shown(shown.length, lines.length)}</span>
      </div>
      <section
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
        tabIndex={0}
        aria-label={label}
        className={wraps ? "lines wraps" : "lines"}
        onScroll={onScroll}
      >
        {shown.length === 0 && <p>{lines.length === 0 ? empty : texts.logs.noMatch}</p>}
        <div style={{ height: virtual.getTotalSize() }}>
          <div style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
            {items.map(({ index, key }) => {
              const { text, note, tone } = shown[index] as Line;
              return (
                <div
                  key={key}
                  data-index={index}
                  ref={wraps ? virtual.measureElement : undefined}
                  className={tone}
                  title={note}
                >
                  {text === "" ? " " : text}
                </div>
              );
            })}
          </div>
        </div>
      </section>
    </>
  );
}

/** Returns how many lines came above those that were shown; less than none where the first of them are gone. */
function movedBy(before: Line[], now: Line[]): number {
  const [was, is] = [before[0]?.id, now[0]?.id];
  if (was === undefined || is === undefined || was === is) return 0;
  const [more, from] = is < was ? [now, was] : [before, is];
  const place = more.findIndex(({ id }) => id === from);
  return place < 0 ? 0 : is < was ? place : -place;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are controlled by them.
const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Returns a line as it ends up on a terminal: without colours, and of what overwrites itself the last. */
export function plain(text: string): string {
  const written = text.replace(ANSI, "");
  const last = written.trimEnd().lastIndexOf("\r");
  return last < 0 ? written : written.slice(last + 1);
}
