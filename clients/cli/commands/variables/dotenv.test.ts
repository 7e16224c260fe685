import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Failure } from "../../failure.ts";
import { readVariables, writeVariables } from "./dotenv.ts";

const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,5}$/);
const character = fc.constantFrom(..."ab =#'\"`\\\n\t$é😀;&", "\\n", "#", "{A}", " ");
const value = fc.array(character, { maxLength: 8 }).map((parts) => parts.join(""));
const entries = fc.dictionary(name, value, { minKeys: 1, maxKeys: 4 }).map((each) => Object.entries(each));

const byName = ([a]: [string, string], [b]: [string, string]) => (a < b ? -1 : 1);

test("what is exported is what is imported again, in each format that can say it", () => {
  let unsaid = 0;
  fc.assert(
    fc.property(entries, (all) => {
      expect(readVariables(writeVariables(all, "json"))).toEqual(all);
      try {
        expect(readVariables(writeVariables(all, "dotenv")).toSorted(byName)).toEqual(all.toSorted(byName));
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        unsaid++;
      }
    }),
    { numRuns: 300 },
  );
  expect(unsaid).toBeLessThan(150);
});

test("a shell reads what is exported for it, whatever the values are", () => {
  const seed = Number(process.env.TEST_SEED);
  const all = fc.sample(value, { seed, numRuns: 50 }).map((each, n) => [`V${n}`, each] as [string, string]);
  const script = `${writeVariables(all, "shell")}node -p "JSON.stringify(process.env)"`;
  const env = JSON.parse(execFileSync("sh", ["-c", script], { encoding: "utf8" })) as Record<string, string>;
  expect(all.map(([each]) => [each, env[each]])).toEqual(all);
});

test("a name that is none is not written, as it might be read as something else", () => {
  for (const format of ["shell", "dotenv"] as const)
    for (const one of ["A;touch x;B", "A\nB", "", "1", "é"])
      expect(() => writeVariables([[one, ""]], format)).toThrow("is no name of a variable");
});

test("a value that a .env file cannot hold is refused with the format that can", () => {
  const failed = (): unknown => writeVariables([["A", "'\"`\n"]], "dotenv");
  expect(failed).toThrow("The value of A cannot be written in a .env file.");
});

test.each([
  ['{"A": 1}', "The value of A is no text."],
  ["{A", "What is imported begins like JSON and is none."],
])("an import that is no text is refused: %s", (text, message) => {
  expect(() => readVariables(text)).toThrow(message);
});

test("the mark with which editors of Windows begin a file is no part of a name", () => {
  expect(readVariables("\uFEFFA=1\r\nB=two words\r\n")).toEqual([
    ["A", "1"],
    ["B", "two words"],
  ]);
  expect(readVariables('\uFEFF{"A": "1"}')).toEqual([["A", "1"]]);
});
