import { duration } from "../../terminal/format.ts";
import type { Terminal } from "../../terminal/terminal.ts";

/** The steps of a deployment as they are shown: lines, and on a terminal one that moves. */
export type Steps = ReturnType<typeof createSteps>;

const LABEL = 15;
const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const FRAME_MS = 100;
const BAR = 16;

export function createSteps(io: Terminal) {
  let current = "";
  let moving: { label: string; text: string; began: number } | undefined;
  let frame = 0;
  let timer: ReturnType<typeof setInterval> | undefined;
  const head = (label: string) => `  ${label.padEnd(LABEL)}`;
  const draw = () => {
    if (!moving) return;
    const { label, text, began } = moving;
    io.redraw(
      `${head(label)}${FRAMES[frame++ % FRAMES.length]} ${text}  ${duration(performance.now() - began)}`,
    );
  };
  return {
    /** Shows a line of a step; the label only where the step begins. */
    line(label: string, text: string) {
      moving = undefined;
      io.note(`${head(label === current ? "" : label)}${text}`);
      current = label;
    },
    /** Shows that something is waited for, with the time it takes. */
    wait(label: string, text: string) {
      if (moving?.label === label && moving.text === text) return;
      moving = { label, text, began: performance.now() };
      if (!io.live) {
        if (label !== current) io.note(`${head(label)}${text}`);
        current = label;
        return;
      }
      if (!timer) {
        timer = setInterval(draw, FRAME_MS);
        timer.unref();
      }
      draw();
    },
    /** Shows how much of something is done. */
    progress(label: string, done: number, of: number, text: string) {
      const full = of === 0 ? BAR : Math.round((Math.min(done, of) / of) * BAR);
      io.redraw(`${head(label)}${"█".repeat(full)}${"░".repeat(BAR - full)} ${text}`);
    },
    end() {
      moving = undefined;
      clearInterval(timer);
    },
  };
}
