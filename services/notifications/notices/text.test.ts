import { create } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { nameText, onTime, reasonText, titleText } from "./text.ts";

test.each([
  ["Ada Lovelace", "Ada Lovelace"],
  ["Ada\r\nBcc: eve@example.com", "Ada Bcc: eve@example. com"],
  ["click https://evil.example/login", "click https: //evil. example/login"],
  ["www.evil.example", "www. evil. example"],
  ["ｅｖｉｌ．ｃｏｍ", "evil. com"],
  ["<a href=x>Berth</a>", "a href=xBerth/a"],
  ["safe\u202Eexe.txt", "safe exe. txt"],
  ["n".repeat(300), `${"n".repeat(59)}…`],
  ["𝒜".repeat(80), `${"A".repeat(59)}…`],
])("the name %j is shown as %j", (name, shown) => {
  expect(nameText(name)).toBe(shown);
});

test.each([
  ["npm ci exited 1\nat line 3", "npm ci exited 1."],
  ["It ended!", "It ended!"],
  ["", ""],
  ["see http://evil.example", "see http: //evil.example."],
  ["x".repeat(1_000), `${"x".repeat(159)}…`],
])("the reason %j is the sentence %j", (text, sentence) => {
  expect(reasonText(text)).toBe(sentence);
});

test.each([
  ["npm ci exited 1.", "npm ci exited 1"],
  [
    "The image nginx:1.2 needs a cluster: this Berth runs processes. Deploy source.",
    "The image nginx:1.2 needs a cluster",
  ],
  ["It took too long; nothing runs.", "It took too long"],
  ["x".repeat(160), `${"x".repeat(79)}…`],
  ["", ""],
])("of the reason %j a title says %j", (reason, title) => {
  expect(titleText(reason)).toBe(title);
});

test("a time is said in UTC, and not at all when it is unknown", () => {
  const at = create(TimestampSchema, { seconds: BigInt(Date.UTC(2026, 10, 20, 8, 5) / 1000) });
  expect(onTime(at)).toBe(" on 20 November 2026 at 08:05 UTC");
  expect(onTime(undefined)).toBe("");
});
