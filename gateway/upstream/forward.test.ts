import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusalOf } from "../testing/api-client.ts";
import { ETAG, recordedGateway } from "../testing/recorded-gateway.ts";
import { unwrap } from "./forward.ts";

let recorded: Awaited<ReturnType<typeof recordedGateway>>;

beforeAll(async () => {
  recorded = await recordedGateway();
});

afterAll(() => recorded.platform.stop());

describe("what comes back", () => {
  test("the single member that is set, where one of several objects is documented", async () => {
    const deployed = await recorded.call("POST", `${recorded.S}/deploy-from-archive`, {
      archiveRef: "arc_1",
    });
    expect(deployed.status).toBe(202);
    expect(deployed.body).toMatchObject({ id: "dep_1", errors: [] });
    const staged = await recorded.call("POST", `${recorded.S}/deploy-from-archive`, { archiveRef: "staged" });
    expect(staged.body).toEqual({ staged: true, reason: "service_not_provisioned" });
  });

  test("the status that a member of the answer has of its own", async () => {
    const tried = await recorded.call("POST", `${recorded.S}/rollback`, { version: 1, dryRun: true });
    expect([tried.status, tried.body.eligible]).toEqual([200, true]);
    const done = await recorded.call("POST", `${recorded.S}/rollback`, { version: 1 });
    expect([done.status, done.body.id]).toEqual([202, "dep_2"]);
  });

  test("an ETag, and 304 without a body when it still holds", async () => {
    const first = await recorded.call("GET", `${recorded.S}/resolved-variables`);
    expect([first.status, first.headers.get("etag")]).toEqual([200, ETAG]);
    expect(first.body).toEqual({ data: [], dangling: [] });
    const again = await recorded.call("GET", `${recorded.S}/resolved-variables`, undefined, {
      headers: { "if-none-match": ETAG },
    });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", ETAG]);
  });

  test("an unforeseen error says nothing but the request id", async () => {
    const answer = await recorded.call("POST", `${recorded.P}/variables/A/reveal`);
    expect(refusalOf(answer)).toBe("500 internal");
    expect(answer.body.error.requestId).toBe(answer.headers.get("x-request-id"));
    expect(answer.text).not.toContain("secret sentence");
  });

  test("a list as a table for who asks for one, and every refusal as JSON", async () => {
    const { A, call } = recorded;
    const asking = (accept: string, month = "2026-10") =>
      call("GET", `${A}/statements/${month}`, undefined, { headers: { accept } });
    const json = await asking("application/json, text/csv;q=0.9, */*");
    expect(json.body).toMatchObject({ month: "2026-10", lines: [{ kind: "service" }] });
    const csv = await asking("text/csv");
    expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    const [header, line, end] = csv.text.split("\r\n");
    expect(header).toMatch(/^periodStart,periodEnd,kind,description,.*,amountUsd$/);
    expect(line).toBe(',,service,"web, of shop",,,,,,,0.0000001');
    expect(end).toBe("");
    expect(refusalOf(await asking("text/csv", "2026-09"))).toBe("404 not_found");
    // Elsewhere there is no table.
    const other = await call("GET", `${recorded.S}/resolved-variables`, undefined, {
      headers: { accept: "text/csv" },
    });
    expect(other.body).toEqual({ data: [], dangling: [] });
  });

  test("HEAD answers like GET without the body", async () => {
    const answer = await recorded.call("HEAD", `${recorded.S}/resolved-variables`);
    expect([answer.status, answer.headers.get("etag"), answer.text]).toEqual([200, ETAG, ""]);
  });

  test("a version that is no number is one that does not exist", async () => {
    for (const version of ["abc", "1.5", "99999999999", ""])
      expect(refusalOf(await recorded.call("GET", `${recorded.S}/deployments/${version}/build-logs`))).toBe(
        "404 not_found",
      );
    expect((await recorded.call("GET", `${recorded.S}/deployments/3/build-logs`)).body).toMatchObject({
      version: 3,
      logs: "…ä\n",
    });
  });
});

test("one member is cut out of a message, however it is written", () => {
  const cut = (text: string) => unwrap(Buffer.from(text))?.toString();
  expect(cut('{"data":[{"a":"}"}]}')).toBe('[{"a":"}"}]');
  expect(cut('{"deployment":{"id":"dep_1"}}')).toBe('{"id":"dep_1"}');
  expect(cut('{ "data" : [ 1 ] }\n')).toBe("[1]");
  expect(cut("{}")).toBeUndefined();
});
