import { parseArgs } from "node:util";
import type { Context } from "./context.ts";
import { COMMON, type Description, type Options, type ValuesOf } from "./description.ts";
import { usage } from "./failure.ts";

export type Input<O extends Options> = {
  args: string[];
  options: ValuesOf<O>;
  /** What follows `--`, for a command that takes a command. */
  rest: string[];
};

/** A command: what is said of it, and what it does. */
export type Command<O extends Options = Options> = Description<O> & {
  /** Returns the exit code, if it is not 0. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a command that has nothing to say returns nothing.
  run: (input: Input<O>, ctx: Context) => Promise<number | void>;
};

/** Checks a command's types where it is written; lists hold commands of all options. */
export function command<const O extends Options = Record<never, never>>(definition: Command<O>): Command {
  return definition as unknown as Command;
}

/** Reads the arguments of a command. Throws a usage failure that names what is wrong and the command's help. */
export function parseCommand(
  { name, args: shape, arity = [0, 0], takesCommand, options = {} }: Description,
  argv: string[],
) {
  const help = `berth ${name} --help`;
  const all: Options = { ...options, ...COMMON };
  const end = argv.indexOf("--");
  if (end >= 0 && !takesCommand) {
    // What follows is arguments that begin with a dash.
    return finish(parse(argv, all, help));
  }
  const rest = end >= 0 ? argv.slice(end + 1) : [];
  return { ...finish(parse(end >= 0 ? argv.slice(0, end) : argv, all, help)), rest };

  function finish({ values, positionals }: ReturnType<typeof parse>) {
    const [least, most] = arity;
    if (!values.help && (positionals.length < least || positionals.length > most)) {
      const wants = shape ? `takes ${shape}` : "takes no arguments";
      const extra = positionals.length > most ? `, not ${JSON.stringify(positionals[most])}` : "";
      throw usage(`berth ${name} ${wants}${extra}.`, help);
    }
    return { args: positionals, options: values, rest: [] as string[] };
  }
}

function parse(argv: string[], all: Options, help: string) {
  const config = Object.fromEntries(
    Object.entries(all).map(([name, { kind, short }]) => [
      name,
      {
        type: kind === "flag" ? ("boolean" as const) : ("string" as const),
        ...(kind === "list" && { multiple: true }),
        ...(short && { short }),
      },
    ]),
  );
  const { values, positionals, tokens } = parseStrictly(argv, config, help);
  for (const token of tokens) {
    if (token.kind !== "option" || all[token.name]?.kind !== "text") continue;
    if (tokens.some((other) => other !== token && other.kind === "option" && other.name === token.name))
      throw usage(`--${token.name} is given twice.`, help);
  }
  for (const [name, option] of Object.entries(all)) {
    if (option.kind === "flag") values[name] ??= false;
    else if (option.kind === "list") values[name] ??= [];
    const value = values[name];
    if (option.kind === "text" && value === "") throw usage(`--${name} needs a value.`, help);
    if (
      option.kind === "text" &&
      option.choices &&
      typeof value === "string" &&
      !option.choices.includes(value)
    )
      throw usage(`--${name} is ${option.choices.join(", ")}, not ${JSON.stringify(value)}.`, help);
  }
  return { values: values as Record<string, string | boolean | string[] | undefined>, positionals };
}

function parseStrictly(
  argv: string[],
  options: Parameters<typeof parseArgs>[0] extends infer C
    ? C extends { options?: infer O }
      ? O
      : never
    : never,
  help: string,
) {
  try {
    const parsed = parseArgs({ args: argv, options: options ?? {}, allowPositionals: true, tokens: true });
    return parsed as typeof parsed & { values: Record<string, string | boolean | string[] | undefined> };
  } catch (error) {
    const message = (error as Error).message.split(". ")[0]!.replace(/\.$/, "");
    throw usage(`${message}.`, help);
  }
}
