/** The exit codes of every command (docs/cli.md#exit-codes). */
export const EXIT = {
  ok: 0,
  refused: 1,
  usage: 2,
  deployFailed: 3,
  unreachable: 4,
  canceled: 130,
} as const;

type Kind = Exclude<keyof typeof EXIT, "ok">;

/** Ends a command: a sentence for the user, the exit code, and the command that comes next, if there is one. */
export class Failure extends Error {
  override name = "Failure";
  readonly exitCode: number;
  readonly code: string;
  readonly next: string | undefined;

  constructor(kind: Kind, message: string, next?: string, code: string = kind) {
    super(message);
    this.exitCode = EXIT[kind];
    this.code = code;
    this.next = next;
  }
}

/** The command line cannot be run as it was typed: exit code 2. */
export const usage = (message: string, next?: string) => new Failure("usage", message, next);

/** Berth, or this machine, says no: exit code 1. */
export const refused = (message: string, next?: string, code?: string) =>
  new Failure("refused", message, next, code);
