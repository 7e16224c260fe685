import { describe, expect, test } from "vitest";
import { withExec } from "./exec-command.ts";

describe("a start command", () => {
  test("takes the shell's place only where the shell has nothing else to do", () => {
    for (const plain of [
      "node server.js",
      ' node -e "$SCRIPT" --port=$PORT',
      "./bin/app > log.txt",
      "python -u main.py",
    ]) {
      expect(withExec(plain)).toBe(`exec ${plain.trim()}`);
    }
    for (const shell of [
      "A=1 node x",
      "cd web && node x",
      "a; b",
      "a | b",
      "a & b",
      "(a) && b",
      "exec node x",
      "cd x",
      "source env.sh",
      "$CMD x",
      "a\nb",
    ]) {
      expect(withExec(shell)).toBe(shell);
    }
  });
});
