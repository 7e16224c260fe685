import { expect, test } from "vitest";
import { toCsv } from "./csv.ts";

const table = { member: "lines", columns: ["name", "amount"] };
const csv = (lines: unknown) => toCsv(table, Buffer.from(JSON.stringify({ lines }))).toString();

test("a table has a header row, and an empty cell for what is missing", () => {
  expect(csv([{ name: "a", amount: 1.5 }, { amount: -2 }])).toBe("name,amount\r\na,1.5\r\n,-2\r\n");
  expect(csv([])).toBe("name,amount\r\n");
  expect(toCsv(table, Buffer.from("{}")).toString()).toBe("name,amount\r\n");
});

test("a text keeps its commas, quotes and lines, and is never a formula", () => {
  expect(csv([{ name: 'a, "b"\nc' }, { name: "=1+1" }, { name: "-x" }])).toBe(
    'name,amount\r\n"a, ""b""\nc",\r\n\'=1+1,\r\n\'-x,\r\n',
  );
});

test("numbers are written out, however small", () => {
  expect(csv([{ amount: 1e-9 }, { amount: -1e-7 }, { amount: 1234567.123456789 }])).toBe(
    "name,amount\r\n,0.000000001\r\n,-0.0000001\r\n,1234567.123456789\r\n",
  );
});
