import { styleText } from "node:util";
import { clean } from "./clean.ts";

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** What a command prints: results to stdout, all else to stderr. */
export type Terminal = ReturnType<typeof createTerminal>;

type Env = Record<string, string | undefined>;

const isOn = (value: string | undefined) => value !== undefined && value !== "" && value !== "0";

/** Whether a stream gets colours: no-color.org and force-color.org, else a terminal that can show them. */
function hasColors(stream: { isTTY?: boolean }, env: Env): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (isOn(env.FORCE_COLOR)) return true;
  return stream.isTTY === true && env.TERM !== "dumb";
}

/** @param json true: results are JSON, and errors too. */
export function createTerminal(json: boolean, env: Env = process.env) {
  const { stdout, stderr, stdin } = process;
  const colors = { out: !json && hasColors(stdout, env), err: hasColors(stderr, env) };
  /** Returns a line for a person: others wrote what is in it, from a server's answers to names of tables. */
  const forPerson = (stream: { isTTY?: boolean }, line: string, colored: boolean) =>
    stream.isTTY
      ? line
          .split("\n")
          .map((part) => clean(part, colored))
          .join("\n")
      : line;
  const paint = (on: boolean) => (style: Style, text: string) =>
    on ? styleText(style, text, { validateStream: false }) : text;
  // Without a reader of stderr the work continues.
  stderr.on("error", () => {});
  let bar = false;
  const endBar = () => {
    if (bar) stderr.write("\r\x1b[K");
    bar = false;
  };
  return {
    json,
    /** Whether the user can be asked. */
    interactive: stdin.isTTY === true && stderr.isTTY === true && !json,
    /** Whether what is printed to stderr may be redrawn. */
    live: stderr.isTTY === true && env.TERM !== "dumb",
    stdoutIsTerminal: stdout.isTTY === true,
    width: (stdout.isTTY && stdout.columns) || 0,
    colors,
    style: paint(colors.out),
    styleErr: paint(colors.err),
    /** Prints a line of the result. */
    out(line: string) {
      endBar();
      stdout.write(`${forPerson(stdout, line, colors.out)}\n`);
    },
    /** Prints text of the result as it is. */
    raw(text: string | Uint8Array) {
      endBar();
      stdout.write(text);
    },
    /** Prints a result as JSON: pretty where a person looks at it, else on one line. */
    outJson(value: unknown) {
      endBar();
      stdout.write(`${JSON.stringify(value, null, stdout.isTTY ? 2 : undefined)}\n`);
    },
    /** Prints a line beside the result. */
    note(line: string) {
      endBar();
      stderr.write(`${forPerson(stderr, line, colors.err)}\n`);
    },
    /** Shows a line that the next one replaces; nothing where lines cannot be redrawn. */
    redraw(line: string) {
      if (stderr.isTTY !== true || env.TERM === "dumb") return;
      stderr.write(`\r\x1b[K${forPerson(stderr, line, colors.err).slice(0, (stderr.columns || 80) - 1)}`);
      bar = true;
    },
    /** Returns text that others wrote, safe to print to stdout; through a pipe it stays as it is. */
    shown: (text: string) => (stdout.isTTY ? clean(text, colors.out) : text),
  };
}
