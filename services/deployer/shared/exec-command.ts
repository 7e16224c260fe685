const SHELL_BUILTINS = new Set([
  ".",
  ":",
  "cd",
  "command",
  "eval",
  "exec",
  "exit",
  "export",
  "read",
  "set",
  "source",
  "trap",
  "ulimit",
  "umask",
]);

/**
 * Makes a single command replace its shell: it gets the signals that ask it to end, which a shell keeps to itself, and
 * its exit code is its own.
 */
export function withExec(command: string): string {
  const [, first] = /^([\w./-]+)(?![\w./-])[^;&|\n]*$/.exec(command.trim()) ?? [];
  const plain = first !== undefined && !SHELL_BUILTINS.has(first) && !/^[\w./-]+=/.test(command.trim());
  return plain ? `exec ${command.trim()}` : command;
}
