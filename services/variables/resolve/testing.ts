import fc from "fast-check";
import type { ScopeKind } from "../scopes/scope.ts";
import { type Addon, type Resolved, resolve, type VariableRow } from "./resolve.ts";

export type Origin = Pick<
  VariableRow,
  "value" | "sensitive" | "connectionService" | "connectionKey" | "aliasTarget"
>;

export const SCOPES: ScopeKind[] = ["service", "environment", "project"];

export const row = (scope: ScopeKind, name: string, origin: Partial<Origin>): VariableRow => ({
  id: `var_${scope}_${name}`,
  name,
  scope,
  scopeId: `${scope}_1`,
  sensitive: false,
  ...origin,
});
export const literal = (scope: ScopeKind, name: string, value: string, sensitive = false) =>
  row(scope, name, { value, sensitive });
export const alias = (scope: ScopeKind, name: string, aliasTarget: string) =>
  row(scope, name, { aliasTarget });
export const connection = (
  scope: ScopeKind,
  name: string,
  connectionService: string,
  connectionKey: string,
) => row(scope, name, { connectionService, connectionKey });

export const ADDONS = new Map<string, Addon>([
  [
    "db",
    {
      type: "postgres",
      ready: true,
      keys: new Map([
        ["HOST", { value: "10.0.0.1", sensitive: false }],
        ["URL", { value: "postgres://u:p@10.0.0.1/d", sensitive: false }],
        ["PASSWORD", { value: "p", sensitive: false }],
        ["TOKEN", { value: "t", sensitive: true }],
      ]),
    },
  ],
  ["cache", { type: "redis", ready: false, keys: new Map([["HOST", { value: "x", sensitive: false }]]) }],
  ["fresh", { type: "postgres", ready: false, keys: new Map() }],
  ["api", { type: "web", ready: true, keys: new Map() }],
  ["jobs", { type: "worker", ready: true, keys: new Map([["HOST", { value: "x", sensitive: false }]]) }],
]);

export const resolved = (...rows: VariableRow[]) => resolve({ rows, addons: ADDONS });
export const values = ({ data }: Resolved) =>
  Object.fromEntries(data.map(({ name, value }) => [name, value]));
export const reasons = ({ dangling }: Resolved) =>
  Object.fromEntries(dangling.map(({ name, reason }) => [name, reason]));

// Any three scopes, heavy on aliases so that chains, cycles, dead ends and shadowing all occur often. Values carry
// the row they stand in, so a value in a result tells which row it came from.
export const NAMES = Array.from({ length: 14 }, (_, index) => `N${index}`);
export const name = fc.constantFrom(...NAMES);
const origin: fc.Arbitrary<Partial<Origin>> = fc.oneof(
  { weight: 2, arbitrary: fc.boolean().map((sensitive) => ({ value: "", sensitive })) },
  {
    weight: 2,
    arbitrary: fc.record({
      connectionService: fc.constantFrom("db", "cache", "fresh", "api", "jobs", "gone"),
      connectionKey: fc.constantFrom("HOST", "URL", "PASSWORD", "TOKEN", "NONE"),
    }),
  },
  { weight: 8, arbitrary: name.map((aliasTarget) => ({ aliasTarget })) },
);
export const anyRows = fc
  .uniqueArray(fc.record({ scope: fc.constantFrom(...SCOPES), name, origin }), {
    selector: (entry) => `${entry.scope} ${entry.name}`,
    maxLength: 42,
  })
  .map((entries) =>
    entries.map((entry) => {
      const made = row(entry.scope, entry.name, entry.origin);
      return made.value === undefined ? made : { ...made, value: `value of ${made.id}` };
    }),
  );

// Straight chains of every length, each link at any scope: random targets hardly ever make eleven in a row.
const chainRows = fc
  .tuple(
    fc.integer({ min: 0, max: 13 }),
    fc.array(fc.constantFrom(...SCOPES), { minLength: 14, maxLength: 14 }),
    fc.boolean(),
  )
  .map(([length, scopes, sensitive]) => [
    ...NAMES.slice(0, length).map((link, at) => alias(scopes[at]!, link, NAMES[at + 1]!)),
    literal(scopes[length]!, NAMES[length]!, "end", sensitive),
  ]);
export const someRows = fc.oneof({ weight: 3, arbitrary: anyRows }, { weight: 1, arbitrary: chainRows });
