import fc from "fast-check";
import { expect, test } from "vitest";
import { atLeast, capped, type RoleName } from "../../kit/rpc/caller-token.ts";
import { permits, type TokenScope } from "./token-scope.ts";

const roles: RoleName[] = ["reader", "editor", "owner"];
const accounts = ["acc_a", "acc_b"];
const scopes: fc.Arbitrary<TokenScope> = fc.record({
  roleCap: fc.constantFrom(undefined, null, ...roles),
  accountId: fc.constantFrom(undefined, null, ...accounts),
});

// What a token of this scope may do in an account where its user has this role.
function reach(token: TokenScope, account: string, role: RoleName): RoleName | undefined {
  return token.accountId && token.accountId !== account
    ? undefined
    : capped(role, token.roleCap ?? undefined);
}

test("a token permits another exactly when it reaches at least as far everywhere", () => {
  fc.assert(
    fc.property(scopes, scopes, (holder, other) => {
      const everywhere = accounts.every((account) =>
        roles.every((role) => {
          const needed = reach(other, account, role);
          return needed === undefined || atLeast(reach(holder, account, role), needed);
        }),
      );
      expect(permits(holder, other)).toBe(everywhere);
    }),
  );
});

test("an unlimited token permits every scope, and only an unlimited token permits an unlimited scope", () => {
  fc.assert(
    fc.property(scopes, (some) => {
      expect(permits({}, some)).toBe(true);
      expect(permits(some, {})).toBe((some.roleCap ?? "owner") === "owner" && some.accountId == null);
    }),
  );
});
