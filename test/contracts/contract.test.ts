import { expect, test } from "vitest";
import { createContract } from "./contract.ts";

const P = "/v1/accounts/acc_1/projects/prj_1";
const id = "var_01k9h2v8x0e6t9v3mzj4qf7c2a";
const times = { createdAt: "2026-11-20T10:00:00Z", updatedAt: "2026-11-20T10:00:00.5Z" };
const variable = {
  id,
  name: "A",
  scope: "project",
  scopeId: "prj_1",
  sensitive: false,
  value: "x",
  ...times,
};
const error = (code: string, ...reasons: string[]) => {
  const details = reasons.map((reason) => ({ path: "", reason, message: "No." }));
  return { error: { code, message: "No.", requestId: "req_1", details } };
};

/** Returns the differences that a contract finds in one answer. */
function differences(method: string, path: string, status: number, body?: unknown, standIns = false) {
  const contract = createContract({ standIns: () => standIns });
  const headers = new Headers({ "x-request-id": "req_1", "content-type": "application/json; charset=utf-8" });
  contract.note(method, path, status, headers, body === undefined ? undefined : JSON.stringify(body));
  return contract.takeBroken().join();
}

test("answers that the document knows are none of its business", () => {
  expect(differences("GET", `${P}/variables/A`, 200, variable)).toBe("");
  expect(differences("HEAD", `${P}/variables/A`, 200)).toBe("");
  expect(differences("GET", `${P}/variables/A`, 404, error("not_found"))).toBe("");
  expect(
    differences("POST", `${P}/variables/batch`, 422, error("validation_failed", "batch_too_large")),
  ).toBe("");
});

test("every way in which an answer differs from the document is told", () => {
  const at = "GET /accounts/{accountId}/projects/{projectId}/variables/{variableName}";
  expect(differences("GET", `${P}/variables/A`, 418)).toBe(`${at} 418 is not documented`);
  const { value: _, ...withheld } = variable;
  expect(differences("GET", `${P}/variables/A`, 200, withheld)).toBe("");
  const { scopeId: __, ...lacking } = variable;
  expect(differences("GET", `${P}/variables/A`, 200, lacking)).toContain(
    "must have required property 'scopeId'",
  );
  expect(differences("GET", `${P}/variables/A`, 200, { ...variable, more: 1 })).toContain(
    "additional properties",
  );
  expect(differences("GET", `${P}/variables/A`, 200, { ...variable, scope: "galaxy" })).toContain(
    "allowed values",
  );
  const page = {
    data: [{ ...variable, createdAt: "2026-02-30T00:00:00Z" }],
    page: { nextCursor: "", hasMore: false },
  };
  expect(differences("GET", `${P}/variables`, 200, page)).toContain("date-time");
  expect(differences("POST", `${P}/variables`, 409, error("no_such_code"))).toContain(
    "the code no_such_code",
  );
  expect(differences("POST", `${P}/variables`, 422, error("validation_failed", "nope"))).toContain(
    "the reason nope",
  );
});

test("of stand-ins the status and the refusals count", () => {
  expect(differences("GET", `${P}/variables/A`, 200, {}, true)).toBe("");
  expect(differences("GET", `${P}/variables/A`, 418, {}, true)).toContain("418 is not documented");
});

test("what is not the API's is not looked at", () => {
  expect(differences("GET", "/v1/nowhere", 404, {})).toBe("");
  expect(differences("GET", "/somewhere/else", 200, {})).toBe("");
});
