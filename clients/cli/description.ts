/** An option of a command. `value` is how help calls its value. */
export type Option =
  | { kind: "flag"; short?: string; about: string }
  | { kind: "text" | "list"; short?: string; value: string; about: string; choices?: readonly string[] };
export type Options = Record<string, Option>;

export type ValuesOf<O extends Options> = {
  [N in keyof O]: O[N]["kind"] extends "flag"
    ? boolean
    : O[N]["kind"] extends "list"
      ? string[]
      : string | undefined;
};

/** What help, completion and docs/cli.md#commands say of a command. */
export type Description<O extends Options = Options> = {
  /** The words after `berth`: `up`, `vars set`. */
  name: string;
  /** One line, without a full stop. */
  summary: string;
  /** Arguments as help shows them: `[FOLDER]`, `NAME=VALUE…`. */
  args?: string;
  /** How many arguments it takes. */
  arity?: [least: number, most: number];
  /** Whether it takes a command after `--`. */
  takesCommand?: boolean;
  /** What users must know beyond the summary, a paragraph each. */
  about?: string[];
  /** Command lines without `berth`, each with what it does. */
  examples: [line: string, does: string][];
  options?: O;
};

/** Options that every command has. */
export const COMMON = {
  project: { kind: "text", short: "p", value: "PROJECT", about: "Name or id of the project" },
  env: { kind: "text", short: "e", value: "ENV", about: "Name or id of the environment" },
  service: { kind: "text", short: "s", value: "SERVICE", about: "Name of the service" },
  account: { kind: "text", value: "ACCOUNT", about: "Handle or id of the account" },
  url: { kind: "text", value: "URL", about: "The installation; also BERTH_URL" },
  token: {
    kind: "text",
    value: "TOKEN",
    about: "Token to use; `-` reads it from stdin. Better: BERTH_TOKEN",
  },
  json: { kind: "flag", about: "Print the result as JSON" },
  help: { kind: "flag", short: "h", about: "Print help" },
} as const satisfies Options;

export type CommonValues = ValuesOf<typeof COMMON>;

/** Confirms what a command would ask. */
export const YES = { kind: "flag", short: "y", about: "Do not ask" } as const;
