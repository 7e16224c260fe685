import { expect, test } from "vitest";
import { type Channel, catalogue, type Frequency, type KindKey, kindKeys } from "../kinds/kinds.ts";
import { toPreference, toRoute } from "./preference.ts";

const channels: Channel[] = ["in_app", "email", "both", "off"];
const frequencies: Frequency[] = ["immediate", "daily", "weekly"];

test.each([
  ["in_app", "visible none", "visible now"],
  ["email", "hidden mail", "hidden now"],
  ["both", "visible mail", "visible now"],
  ["off", "none none", "hidden now"],
] as const)("channel %s goes out as %s, and when forced as %s", (channel, chosen, forced) => {
  for (const frequency of frequencies) {
    const mail = frequency === "immediate" ? "now" : frequency;
    const routed = (forceEmail: boolean) =>
      Object.values(toRoute({ channel, frequency, forceEmail })).join(" ");
    expect(routed(false)).toBe(chosen.replace("mail", mail));
    expect(routed(true)).toBe(forced);
  }
});

test("a preference is the user's choice, or the catalogue's; what is forced stays forced", () => {
  for (const kind of kindKeys) {
    const { channel, frequency, forced, label, category } = catalogue[kind];
    const fixed = { kind, label, category, forceEmail: forced };
    expect(toPreference(kind, undefined)).toEqual({ ...fixed, channel, frequency, overridden: false });
    for (const chosen of channels)
      for (const often of frequencies)
        expect(toPreference(kind, { channel: chosen, frequency: often })).toEqual({
          ...fixed,
          channel: chosen,
          frequency: often,
          overridden: true,
        });
  }
});

test("forced are security, billing and deletion, and nothing else", () => {
  const forced = kindKeys.filter((kind) => catalogue[kind].forced);
  const of = (...prefixes: string[]) => kindKeys.filter((kind) => prefixes.includes(kind.split(".")[0]!));
  const expected: KindKey[] = [
    ...of("billing", "deletion", "security"),
    "member.role_changed",
    "member.removed",
  ];
  expect(new Set(forced)).toEqual(new Set(expected));
});
