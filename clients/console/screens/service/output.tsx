import { useRef, useState } from "react";
import type { StreamOptions } from "../../../typescript/src/index.ts";
import { type Line, Lines, plain } from "../../design/lines.tsx";
import { LiveMark } from "../../design/state.tsx";
import { useFollow } from "../../live/follow.ts";
import { texts } from "../../texts.ts";

type OutputProps<T> = {
  /** Of the stream. */
  id: string;
  open: (options: StreamOptions) => AsyncIterable<T>;
  onEnd?: () => void;
  title: string;
  /** Of the file, when it is downloaded. */
  name: string;
  empty: string;
};

/** What a build or a run writes, as it writes it. */
export function Output<T extends { event: string; data: unknown }>(props: OutputProps<T>) {
  const { id, open, onEnd, title, name, empty } = props;
  const [lines, setLines] = useState<Line[]>([]);
  const [isTruncated, setIsTruncated] = useState(false);
  const next = useRef(0);
  const liveness = useFollow(
    id,
    (options) => {
      next.current = 0;
      return open(options);
    },
    ({ event, data }) => {
      if (event === "end") onEnd?.();
      if (event === "restart") setLines([]);
      if (event !== "piece") return;
      const { logs, truncated } = data as { logs: string; truncated: boolean };
      const isFirst = next.current === 0;
      const fresh = logs
        .replace(/\n$/, "")
        .split("\n")
        .map((text) => ({ id: next.current++, text: plain(text) }));
      if (truncated) setIsTruncated(true);
      setLines((before) => (isFirst ? fresh : [...before, ...fresh]));
    },
  );
  return (
    <section>
      <h3>
        {title} <LiveMark liveness={liveness} />
      </h3>
      {isTruncated && <p className="hint">{texts.logs.truncated}</p>}
      <Lines lines={lines} label={title} name={name} empty={empty} />
    </section>
  );
}
