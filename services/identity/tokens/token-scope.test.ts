import fc from "fast-check";
import { expect, test } from "vitest";
import { atLeast, capped, type RoleName } from "../../kit/rpc/caller-token.ts";
import { covers, type Limits } from "./token-scope.ts";

const roles: RoleName[] = ["reader", "editor", "owner"];
const accounts = ["acc_a", "acc_b"];
const limits: fc.Arbitrary<Limits> = fc.record({
  roleCap: fc.constantFrom(undefined, null, ...roles),
  accountId: fc.constantFrom(undefined, null, ...accounts),
});

// What a token of these limits may do in an account where its user has this role.
function reach(token: Limits, account: string, role: RoleName): RoleName | undefined {
  return token.accountId && token.accountId !== account
    ? undefined
    : capped(role, token.roleCap ?? undefined);
}

test("a token covers another exactly when it reaches at least as far everywhere", () => {
  fc.assert(
    fc.property(limits, limits, (holder, other) => {
      const everywhere = accounts.every((account) =>
        roles.every((role) => {
          const needed = reach(other, account, role);
          return needed === undefined || atLeast(reach(holder, account, role), needed);
        }),
      );
      expect(covers(holder, other)).toBe(everywhere);
    }),
  );
});

test("whoever is not limited covers everybody, and only they cover somebody who is not limited", () => {
  fc.assert(
    fc.property(limits, (some) => {
      expect(covers({}, some)).toBe(true);
      expect(covers(some, {})).toBe((some.roleCap ?? "owner") === "owner" && some.accountId == null);
    }),
  );
});
