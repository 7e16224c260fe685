import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusalOf, sendLarge } from "../testing/api-client.ts";
import { recordedGateway } from "../testing/recorded-gateway.ts";

let recorded: Awaited<ReturnType<typeof recordedGateway>>;

beforeAll(async () => {
  recorded = await recordedGateway();
});

afterAll(() => recorded.platform.stop());

describe("what is wrong with a request is said before anything runs", () => {
  test("unknown, misspelt and path members of a body, each by its place", async () => {
    const body = {
      name: "A",
      alias_target: "B",
      project_id: "prj_2",
      projectId: "prj_2",
      environmentId: "env_1",
    };
    const answer = await recorded.call("POST", `${recorded.P}/variables`, body);
    expect(refusalOf(answer)).toBe("422 unknown_field unknown_field unknown_field unknown_field");
    expect(answer.body.error.details.map((detail) => detail.path)).toEqual([
      "alias_target",
      "project_id",
      "projectId",
      "environmentId",
    ]);
  });

  test("unknown members and wrong types inside members are named by their whole path, never quoted", async () => {
    const set = [{ name: "A", value: "x" }, { name: 7777, connection: { service: "db", port: 1 } }, "s3cr3t"];
    const answer = await recorded.call("POST", `${recorded.P}/variables/batch`, {
      set,
      unset: "s3cr3t",
      confirmImpact: "yes",
    });
    expect(answer.body.error.details.map(({ path, reason }) => `${path} ${reason}`)).toEqual([
      "set[1].name invalid_type",
      "set[1].connection.port unknown_field",
      "set[2] invalid_type",
      "unset invalid_type",
      "confirmImpact invalid_type",
    ]);
    expect(answer.text).not.toContain("s3cr3t");
    expect(answer.text).not.toContain("7777");
  });

  test("an unknown member is told the ones that there are, and the nearest", async () => {
    const said = async (method: string, path: string, body?: unknown) =>
      (await recorded.call(method, path, body)).body.error.details[0]!.message;
    const members = "There are: name, value, connection, aliasTarget, sensitive.";
    expect(await said("POST", `${recorded.P}/variables`, { alias_target: "B" })).toBe(
      `alias_target is not known here; did you mean aliasTarget? ${members}`,
    );
    expect(await said("POST", `${recorded.P}/variables`, { colour: "red" })).toBe(
      `colour is not known here. ${members}`,
    );
    expect(await said("POST", `${recorded.P}/variables`, { connection: { servise: "db" } })).toBe(
      "connection.servise is not known here; did you mean service? There are: service, key.",
    );
    expect(await said("GET", `${recorded.P}/variables?limt=3`)).toBe(
      "limt is not known here; did you mean limit? There are: limit, cursor.",
    );
    expect(await said("GET", `${recorded.S}?x=1`)).toBe("x is not known here. There are none.");
    expect(await said("POST", `${recorded.P}/variables`, { ["n".repeat(500_000)]: 1 })).toHaveLength(
      `${"n".repeat(200)} is not known here. ${members}`.length,
    );
    expect(await said("POST", `${recorded.P}/variables`, "[]")).toBe("The body must be an object.");
  });

  test("query members that are unknown, of the wrong type, or given twice", async () => {
    const refused = async (query: string) =>
      refusalOf(await recorded.call("GET", `${recorded.P}/variables?${query}`));
    expect(await refused("limt=3")).toBe("422 unknown_field");
    expect(await refused("environmentId=env_1")).toBe("422 unknown_field");
    expect(await refused("limit=abc")).toBe("422 invalid_type");
    expect(await refused("limit=")).toBe("422 invalid_type");
    expect(await refused("limit=99999999999")).toBe("422 out_of_range");
    expect(await refused("limit=101")).toBe("422 out_of_range");
    expect(await refused("limit=1&limit=2")).toBe("422 invalid_type");
    expect(refusalOf(await recorded.call("GET", `${recorded.S}/logs?since=yesterday`))).toBe(
      "422 invalid_type",
    );
    expect(
      refusalOf(
        await recorded.call("POST", `${recorded.P}/variables?sensitive=true`, { name: "A", value: "" }),
      ),
    ).toBe("422 unknown_field");
  });

  test.each([
    ["2026-02-30T00:00:00Z", "day must be from 01 to 28"],
    ["2100-02-29T00:00:00Z", "day must be from 01 to 28"],
    ["2028-02-30T00:00:00Z", "day must be from 01 to 29"],
    ["2026-04-31T00:00:00Z", "day must be from 01 to 30"],
    ["2026-11-00T00:00:00Z", "day must be from 01 to 30"],
    ["2026-00-10T00:00:00Z", "month must be from 01 to 12"],
    ["2026-13-10T00:00:00Z", "month must be from 01 to 12"],
    ["2026-11-20T24:00:00Z", "hour must be from 00 to 23"],
    ["2026-11-20T23:60:00Z", "minute must be from 00 to 59"],
    ["2026-06-30T23:59:60Z", "second must be from 00 to 59"],
    ["2026-11-20T10:00:00+24:00", "offset's hour must be from 00 to 23"],
    ["2026-11-20T10:00:00-99:99", "offset's hour must be from 00 to 23"],
    ["2026-11-20T10:00:00+01:60", "offset's minute must be from 00 to 59"],
    ["0000-11-20T10:00:00Z", "year must be from 0001 to 9999"],
    ["0001-01-01T00:00:00+00:01", "must be in the years 0001 to 9999"],
    ["9999-12-31T23:59:59-00:01", "must be in the years 0001 to 9999"],
  ])("the time %s does not exist: its %s", async (time, sentence) => {
    for (const path of [`${recorded.S}/logs`, `${recorded.A}/audit-events`]) {
      const answer = await recorded.call("GET", `${path}?since=${encodeURIComponent(time)}`);
      expect(refusalOf(answer)).toBe("422 out_of_range");
      expect(answer.body.error.message).toContain(sentence);
      expect(answer.body.error.details[0]!.path).toBe("since");
    }
  });

  test("times that exist are taken, also at the ends of what there is, and others are none", async () => {
    const status = async (time: string) => {
      const answers = [`${recorded.S}/logs`, `${recorded.A}/audit-events`].map((path) =>
        recorded.call("GET", `${path}?since=${encodeURIComponent(time)}`),
      );
      return [...new Set((await Promise.all(answers)).map(refusalOf))];
    };
    for (const time of [
      "2028-02-29T23:59:59.999999999+23:59",
      "2000-02-29T00:00:00-00:00",
      "0001-01-01T00:00:00Z",
      "9999-12-31T23:59:59.999999999Z",
    ])
      expect([time, await status(time)]).toEqual([time, ["200 "]]);
    for (const time of [
      "10000-01-01T00:00:00Z",
      "2026-11-20",
      "1795168800",
      "2026-11-20T10:00:00",
      "tomorrow",
      "",
    ])
      expect([time, await status(time)]).toEqual([time, ["422 invalid_type"]]);
  });

  test("a body that is not JSON, not an object, not UTF-8, compressed, of another type, or too large", async () => {
    const post = async (body: string | Uint8Array, headers = {}) => {
      const answer = await fetch(`${recorded.gateway.baseUrl}${recorded.P}/variables`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${recorded.platform.ownerToken}`,
          "content-type": "application/json",
          ...headers,
        },
        body: body as string,
      });
      return `${answer.status} ${((await answer.json()) as { error: { code: string } }).error.code}`;
    };
    expect(await post("{")).toBe("400 malformed_request");
    expect(await post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBe(
      "400 malformed_request",
    );
    expect(await post("[]")).toBe("422 validation_failed");
    expect(await post("null")).toBe("422 validation_failed");
    expect(await post("{}", { "content-type": "text/plain" })).toBe("415 unsupported_media_type");
    expect(await post("{}", { "content-encoding": "gzip" })).toBe("415 unsupported_media_type");
    expect(await post(`{"value":"${"x".repeat(1024 * 1024)}"}`)).toBe("413 payload_too_large");
  });

  test("a client that is refused while it sends a large body reads why", async () => {
    const send = async (headers: Record<string, string>) => {
      const options = { method: "POST", headers: { "content-type": "application/json", ...headers } };
      const request = httpRequest(`${recorded.gateway.baseUrl}${recorded.P}/variables`, options);
      return (await sendLarge(request, 300)).statusCode;
    };
    expect(await send({ authorization: `Bearer ${recorded.platform.ownerToken}` })).toBe(413);
    expect(await send({})).toBe(401);
  });

  test("a batch may be 4 MiB", async () => {
    const value = "x".repeat(60 * 1024);
    const set = Array.from({ length: 60 }, (_, n) => ({ name: `A${n}`, value }));
    expect((await recorded.call("POST", `${recorded.P}/variables/batch`, { set })).status).toBe(200);
  });

  test("a caller who is not known or not allowed learns nothing of the body", async () => {
    const nobody = await recorded.call("POST", `${recorded.P}/variables`, "{", { token: "" });
    expect(refusalOf(nobody)).toBe("401 unauthenticated");
    const stranger = await recorded.call("POST", "/accounts/acc_other/projects", '{"nope":1}');
    expect(refusalOf(stranger)).toBe("403 forbidden");
  });
});

test("whether the path names something is asked only when the request is refused", async () => {
  const asks = async (path: string) => {
    const before = recorded.asked.length;
    const answer = refusalOf(await recorded.call("GET", path));
    return [answer, ...recorded.asked.slice(before).map(({ method }) => method)];
  };
  const nobody = `${recorded.P}/environments/env_1/services/nobody`;
  expect(await asks(`${recorded.S}/logs?limit=7`)).toEqual(["200 ", "listLogs"]);
  expect(await asks(`${recorded.S}/logs?limit=x`)).toEqual(["422 invalid_type", "getService"]);
  expect(await asks(`${nobody}/logs?limit=x`)).toEqual(["404 not_found", "getService"]);
});
