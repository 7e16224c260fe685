/** Progress of a start: live lines in a terminal, one plain line per step elsewhere. */
export type Display = {
  /** A part is starting. */
  begin(name: string): void;
  /** Says what a part is doing when it takes long. */
  note(name: string, text: string): void;
  ready(name: string): void;
  /** Prints a line. */
  line(text: string): void;
  /** Ends the progress; what is shown stays. */
  close(): void;
};

type Output = { isTTY?: boolean; columns?: number; write(text: string): unknown };
type Row = { began: number; took?: number; note: string };

/** @param live false: plain lines even in a terminal. */
export function createDisplay(output: Output, live: boolean): Display {
  return output.isTTY && live ? liveDisplay(output) : plainDisplay(output);
}

function plainDisplay(output: Output): Display {
  const began = new Map<string, number>();
  return {
    begin: (name) => began.set(name, Date.now()),
    note: (name, text) => output.write(`${name}: ${text}\n`),
    ready: (name) => output.write(`${name} ready (${seconds(began.get(name))})\n`),
    line: (text) => output.write(`${text}\n`),
    close: () => {},
  };
}

/** One row for each part, redrawn in place. */
function liveDisplay(output: Output): Display {
  const rows = new Map<string, Row>();
  let drawn = 0;
  let frame = 0;
  const erase = () => {
    if (drawn > 0) output.write(`\x1b[${drawn}A\x1b[J`);
    drawn = 0;
  };
  const draw = () => {
    erase();
    const width = (output.columns || 80) - 1;
    const lines = [...rows].map(([name, row]) => rowText(name, row, frame).slice(0, width));
    if (lines.length > 0) output.write(`${lines.join("\n")}\n`);
    drawn = lines.length;
  };
  const timer = setInterval(() => {
    frame++;
    if ([...rows.values()].some(({ took }) => took === undefined)) draw();
  }, 100);
  timer.unref();
  return {
    begin: (name) => {
      rows.set(name, { began: Date.now(), note: "" });
      draw();
    },
    note: (name, text) => {
      const row = rows.get(name);
      if (row) row.note = text;
      draw();
    },
    ready: (name) => {
      const row = rows.get(name);
      if (row) Object.assign(row, { took: Date.now(), note: "" });
      draw();
    },
    line: (text) => {
      erase();
      output.write(`${text}\n`);
      draw();
    },
    close: () => {
      clearInterval(timer);
      draw();
      rows.clear();
      drawn = 0;
    },
  };
}

const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

function rowText(name: string, { began, took, note }: Row, frame: number): string {
  const sign = took === undefined ? FRAMES[frame % FRAMES.length] : "✓";
  return `  ${sign} ${name.padEnd(14)} ${seconds(began, took)}  ${note}`.trimEnd();
}

function seconds(from = Date.now(), to = Date.now()): string {
  return `${((to - from) / 1000).toFixed(1)} s`;
}
