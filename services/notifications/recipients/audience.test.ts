import { expect, test } from "vitest";
import { catalogue, type Kind, type KindKey, kindKeys } from "../kinds/kinds.ts";
import { audienceOf, describeAudience } from "./audience.ts";

const member = (userId: string, role: string) => ({
  userId,
  role,
  email: `${userId}@example.com`,
  displayName: userId,
  emailVerified: true,
});
const members = [
  member("reader", "reader"),
  member("editor", "editor"),
  member("owner", "owner"),
  member("actor", "owner"),
];

const everyone = ["reader", "editor", "owner", "actor"];
const expected: Partial<Record<string, string[]>> = {
  deploy: ["editor", "owner", "actor"],
  billing: ["owner", "actor"],
  deletion: ["owner", "actor"],
  social: everyone,
  domain: ["editor", "owner", "actor"],
  job: ["editor", "owner", "actor"],
  addon: ["editor", "owner", "actor"],
  storage: ["editor", "owner", "actor"],
  backup: ["editor", "owner", "actor"],
  webhook: ["owner", "actor"],
  node: ["owner", "actor"],
  "member.joined": ["owner"],
  "member.left": ["owner"],
  "security.variable_revealed": ["owner"],
};
const ofAccount = (kind: KindKey) => (catalogue[kind] as Kind).audience !== "user";

test.each(kindKeys.filter(ofAccount))("%s goes to its audience in the account", (kind) => {
  const audience = audienceOf(kind, members, "actor").map(({ userId }) => userId);
  expect(audience).toEqual(expected[kind] ?? expected[kind.split(".")[0]!]);
  expect(describeAudience(kind)).toContain("the account");
});

test.each(kindKeys.filter((kind) => !ofAccount(kind)))(
  "%s is about one user, whatever the account",
  (kind) => {
    expect(["member", "security"]).toContain(kind.split(".")[0]);
    expect(() => audienceOf(kind, members)).toThrow("about one user");
    expect(describeAudience(kind)).toBe("the user it is about");
  },
);
