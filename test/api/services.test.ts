import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

describe("projects, environments and services", () => {
  test("names are checked and unique in their parent", async () => {
    const { name, P, E } = await world.environment();
    expect(refusal(await world.call("POST", `${world.A}/projects`, { name }))).toBe("409 name_taken");
    expect(refusal(await world.call("POST", `${P}/environments`, { name: "production" }))).toBe(
      "409 name_taken",
    );
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    expect(refusal(await world.call("POST", `${E}/services`, { name: "web", type: "worker" }))).toBe(
      "409 name_taken",
    );
    for (const bad of ["", "1a", "A", "a_b", "a".repeat(41)]) {
      expect(refusal(await world.call("POST", `${world.A}/projects`, { name: bad }))).toBe(
        "422 invalid_name",
      );
      expect(refusal(await world.call("POST", `${P}/environments`, { name: bad }))).toBe("422 invalid_name");
      expect(refusal(await world.call("POST", `${E}/services`, { name: bad, type: "web" }))).toBe(
        "422 invalid_name",
      );
    }
    expect(refusal(await world.call("POST", `${E}/services`, { name: "x", type: "lambda" }))).toBe(
      "422 invalid_choice",
    );
    const config = { port: 70000 };
    expect(refusal(await world.call("POST", `${E}/services`, { name: "x", type: "web", config }))).toBe(
      "422 out_of_range",
    );
  });

  test("a service shows its defaults, takes changes member by member, and lists", async () => {
    const { E, S } = await world.environment();
    const made = await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    expect(made).toMatchObject({ status: "pending", source: {}, pendingChanges: false, staged: false });
    expect(made.config).toMatchObject({ port: 8080, replicas: 1, size: "nano" });
    const changed = await world.must("PATCH", S("web"), { config: { size: "small" } });
    expect(changed.config).toMatchObject({ port: 8080, size: "small" });
    expect(refusal(await world.call("PATCH", S("web"), {}))).toBe("422 empty_patch");
    expect(refusal(await world.call("PATCH", S("web"), { config: { colour: "red" } }))).toBe(
      "422 unknown_field",
    );
    const list = await world.must<{ data: { name: string }[] }>("GET", `${E}/services`);
    expect(list.data.map((s) => s.name)).toEqual(["web"]);
    expect(refusal(await world.call("GET", S("nope")))).toBe("404 not_found");
    expect((await world.call("DELETE", S("web"))).status).toBe(204);
    await eventually(
      "it is gone",
      async () => refusal(await world.call("GET", S("web"))) === "404 not_found",
    );
  });

  test("what is wrong with a request is said in a sentence that names the member", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    const said = async (method: string, path: string, body?: unknown) => {
      const { error } = (await world.call(method, path, body)).body;
      expect(error!.details[0]!.message).toBe(error!.message);
      return `${error!.details[0]!.reason}: ${error!.message}`;
    };
    const create = (more: object) => said("POST", `${E}/services`, { name: "x", type: "web", ...more });
    const git = { repository: "https://git.example.com/a.git" };
    expect(await create({ source: { git } })).toBe("required: source.git.branch is required.");
    expect(await create({ source: { image: "" } })).toBe("required: source.image must not be empty.");
    expect(await create({ source: { image: "x".repeat(513) } })).toBe(
      "too_long: source.image may have at most 512 characters.",
    );
    expect(await create({ type: "lambda" })).toBe(
      "invalid_choice: type must be web, worker, cron, postgres, or redis.",
    );
    expect(await create({ config: { port: 0 } })).toBe("out_of_range: config.port must be from 1 to 65535.");
    expect(await create({ config: { replicas: "2" } })).toBe(
      "invalid_type: config.replicas must be a whole number.",
    );
    expect(await create({ name: "1" })).toBe(
      "invalid_name: name must be 1-40 of a-z, 0-9 and -, and start with a letter.",
    );
    expect(await said("PATCH", S("web"), { unsetEnv: Array(101).fill("A") })).toBe(
      "too_long: unsetEnv may have at most 100 entries.",
    );
    expect(await said("POST", `${S("web")}/uploads`, { sizeBytes: -1 })).toBe(
      "out_of_range: sizeBytes must be 0 or more.",
    );
    expect(await said("POST", `${S("web")}/rollback`, {})).toBe("required: version is required.");
    expect(await said("POST", "/me/tokens", { name: "" })).toBe("required: name is required.");
  });

  test("text that cannot be stored is refused, wherever it stands in a source or a configuration", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    for (const bad of ["a\\u0000b", "a\\ud800b"])
      for (const body of [
        `{"source":{"image":"${bad}"}}`,
        `{"source":{"git":{"repository":"https://example.com/${bad}.git","branch":"main"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"${bad}"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"b","contextDir":"${bad}"}}}`,
        `{"source":{"git":{"repository":"https://example.com/a.git","branch":"b","tokenVariable":"${bad}"}}}`,
        `{"config":{"command":"${bad}"}}`,
        `{"config":{"dockerfile":"${bad}"}}`,
        `{"config":{"healthCheckPath":"/${bad}"}}`,
        `{"config":{"size":"${bad}"}}`,
        `{"config":{"env":{"A":"${bad}"}}}`,
        `{"config":{"env":{"${bad}":"1"}}}`,
      ]) {
        expect([body, (await world.call("PATCH", S("web"), body)).status]).toEqual([body, 422]);
        const whole = `{"name":"x","type":"web",${body.slice(1)}`;
        expect([body, (await world.call("POST", `${E}/services`, whole)).status]).toEqual([body, 422]);
      }
    const deploy = await world.call("POST", `${S("web")}/deploy`, '{"image":"a\\u0000b"}');
    expect(refusal(deploy)).toBe("422 invalid_image");
  });

  test("deploying what cannot be deployed says why", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await world.must("POST", `${E}/services`, { name: "api", type: "web" });
    await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
    expect(refusal(await world.call("POST", `${S("web")}/deploy`, {}))).toBe("422 no_deployable_image");
    expect(refusal(await world.call("POST", `${S("db")}/uploads`, {}))).toBe("422 not_deployable");
    expect(refusal(await world.call("POST", `${S("db")}/deploy`, { image: "x" }))).toBe("422 not_deployable");
    const tooLarge = { sizeBytes: 501 * 1024 * 1024 };
    expect(refusal(await world.call("POST", `${S("web")}/uploads`, tooLarge))).toBe("422 archive_too_large");
    for (const [size, said] of [
      ["2147483647", "archive_too_large"],
      ["2147483648", "archive_too_large"],
      ["1e300", "archive_too_large"],
      ["1e999", "archive_too_large"],
      ["-1", "out_of_range"],
      ["-1e300", "out_of_range"],
      ["1.5", "invalid_type"],
    ])
      expect([
        size,
        refusal(await world.call("POST", `${S("web")}/uploads`, `{"sizeBytes":${size}}`)),
      ]).toEqual([size, `422 ${said}`]);
    const upload = await world.must<{ archiveRef: string; uploadUrl: string; contentType: string }>(
      "POST",
      `${S("web")}/uploads`,
      {},
    );
    const archive = { archiveRef: upload.archiveRef };
    const deploy = async (service: string, body: unknown) =>
      refusal(await world.call("POST", `${S(service)}/deploy-from-archive`, body));
    expect(await deploy("web", archive)).toBe("422 archive_not_uploaded");
    expect(await deploy("api", archive)).toBe("422 archive_ref_mismatch");
    expect(await deploy("web", { archiveRef: "arc_forged" })).toBe("422 archive_ref_mismatch");
    const put = await fetch(upload.uploadUrl, {
      method: "PUT",
      headers: { "content-type": "text/plain" },
      body: "x",
    });
    expect(put.status).toBeGreaterThanOrEqual(400);
    expect(await put.json()).toHaveProperty("error.code");
    for (const path of ["deployments/7", "deployments/7/build-logs"])
      expect(refusal(await world.call("GET", `${S("web")}/${path}`))).toBe("404 not_found");
    const logs = await world.call("GET", `${S("web")}/logs?limit=1001`);
    expect(refusal(logs)).toBe("422 out_of_range");
  });

  test("a staged service acknowledges an archive and deploys it when the canvas is applied", async () => {
    const { E, S } = await world.environment();
    const made = await world.must("POST", `${E}/services`, { name: "web", type: "web", staged: true });
    expect(made).toMatchObject({ status: "staged", staged: true });
    expect(await world.must("POST", `${E}/apply`, {})).toEqual({ applied: [made.id] });
    expect(await world.must("GET", S("web"))).toMatchObject({ staged: false });
  });
});
