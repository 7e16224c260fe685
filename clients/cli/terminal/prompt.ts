import { createInterface } from "node:readline/promises";
import { Failure, usage } from "../failure.ts";
import { clean } from "./clean.ts";
import type { Terminal } from "./terminal.ts";

/** Asks for a line. Without a terminal nobody can answer: the command ends with `otherwise`, what to type instead. */
export async function ask(io: Terminal, question: string, otherwise: string): Promise<string> {
  if (!io.interactive)
    throw usage(`${question.replace(" [y/N]", "")} Without a terminal nobody can answer.`, otherwise);
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await lines.question(`  ${clean(question)} `, { signal: closedBy(lines) })).trim();
  } catch {
    throw new Failure("canceled", "Nothing was changed.");
  } finally {
    lines.close();
  }
}

/** Ctrl-C and Ctrl-D end a question. */
function closedBy(lines: ReturnType<typeof createInterface>): AbortSignal {
  const controller = new AbortController();
  lines.once("SIGINT", () => controller.abort());
  lines.once("close", () => controller.abort());
  return controller.signal;
}

/** Asks for a yes. `--yes` answers it; without a terminal it is refused. */
export async function confirm(io: Terminal, question: string, yes: boolean, again: string): Promise<void> {
  if (yes) return;
  const answer = await ask(io, `${question} [y/N]`, again);
  if (!/^y(es)?$/i.test(answer)) throw new Failure("canceled", "Nothing was changed.");
}

/** Asks to choose one of several by its number or name. */
export async function choose<T>(
  io: Terminal,
  noun: string,
  choices: { name: string; value: T }[],
  otherwise: string,
): Promise<T> {
  if (!io.interactive) {
    const names = choices.map(({ name }) => name).join(", ");
    throw usage(`There are several ${noun}s: ${names}.`, otherwise);
  }
  for (const [n, { name }] of choices.entries()) io.note(`  ${String(n + 1).padStart(2)}  ${name}`);
  for (;;) {
    const answer = await ask(io, `Which ${noun}?`, otherwise);
    const found = choices.find(({ name }, n) => answer === name || answer === String(n + 1));
    if (found) return found.value;
  }
}

/** Asks for a secret, which is not shown while it is typed. */
export async function askSecret(io: Terminal, question: string, otherwise: string): Promise<string> {
  if (!io.interactive) throw usage(`${question} Without a terminal nobody can answer.`, otherwise);
  const { stdin } = process;
  // Before it asks: what is typed at once would be shown.
  stdin.setRawMode(true);
  process.stderr.write(`  ${clean(question)} `);
  let typed = "";
  try {
    for await (const chunk of stdin.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
      for (const key of chunk as string) {
        if (key === "\r" || key === "\n") return typed;
        if (key === "\x03" || key === "\x04") throw new Failure("canceled", "Nothing was changed.");
        if (key === "\x7f" || key === "\b") typed = [...typed].slice(0, -1).join("");
        else typed += key;
      }
    }
    return typed;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    process.stderr.write("\n");
  }
}

/** Reads all of stdin, where it is a pipe or a file. */
export async function readStdin(limitBytes = 4 * 1024 * 1024): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    size += (chunk as Buffer).length;
    if (size > limitBytes) throw usage(`What stdin has is larger than ${limitBytes / 1024 / 1024} MiB.`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}
