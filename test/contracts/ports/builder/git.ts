import { expect, test } from "vitest";
import { BuildFailure } from "../../../../services/deployer/builder/build-failure.ts";
import type { BuildRequest, GitBuildSource } from "../../../../services/deployer/builder/port.ts";
import { exampleFiles } from "../../../support/archives.ts";
import { type BuilderHarness, never, requestOf } from "./harness.ts";

/** What every builder guarantees for git sources. */
export function gitContract(harness: () => BuilderHarness): void {
  const requestFor = (source: Partial<GitBuildSource>, changes: Partial<BuildRequest> = {}) =>
    requestOf(harness().store, [], {
      source: { kind: "git", repository: harness().git.url("app"), branch: "main", ...source },
      ...changes,
    });
  const failureOf = async (source: Partial<GitBuildSource>, changes: Partial<BuildRequest> = {}) => {
    const request = await requestFor(source, changes);
    const failure = await harness()
      .builder.build(request, never)
      .catch((error) => error);
    expect(failure).toBeInstanceOf(BuildFailure);
    expect(await harness().remains(request.buildId)).toEqual([]);
    return { failure: failure as BuildFailure, request };
  };

  test("a branch is built and answers, its commit is told, and a later build sees the next commit", async () => {
    const { git, builder, ask } = harness();
    const commit = git.create("app", exampleFiles("node"));
    const commits: string[] = [];
    const request = await requestFor({}, { onCommit: (one) => commits.push(one) });
    const result = await builder.build(request, never);
    expect([result.runtime, result.commit, commits]).toEqual(["node", commit, [commit]]);
    expect(request.stages.slice(0, 3)).toEqual(["Fetching source", "Detecting runtime", "Building image"]);
    expect((await ask(result, "/", { GREETING: "from git" })).body).toContain("from git");

    const next = git.commit("app", { "site/index.html": "<h1>in a folder</h1>" });
    expect(await builder.build(request, never)).toEqual(result); // the same build
    const second = await builder.build(await requestFor({ contextDir: "site" }), never);
    expect([second.runtime, second.commit]).toEqual(["static", next]);
    expect((await ask(second, "/", {})).body).toContain("in a folder");
  });

  test("a private repository is built with its token, which neither log nor failure shows", async () => {
    const { git, builder } = harness();
    const token = "a-secret-of-the-contract";
    git.create("private", exampleFiles("static"));
    git.protect("private", token);
    const repository = git.url("private");
    const request = await requestFor({ repository, token });
    await builder.build(request, never);
    expect(request.lines.join("\n")).not.toContain(token);
    const without = await failureOf({ repository });
    expect(without.failure).toMatchObject({ stage: "source", code: "git_authentication_failed" });
    const wrong = await failureOf({ repository, token: `not-${token}` });
    expect(wrong.failure).toMatchObject({ stage: "source", code: "git_authentication_failed" });
    expect([wrong.failure.message, ...wrong.request.lines].join("\n")).not.toContain(token);
  });

  test("a git source that cannot be had fails at stage source, and says what is missing", async () => {
    const { git } = harness();
    git.create("app2", { "index.html": "x", "out/link": { link: "../../x" } });
    const of = async (source: Partial<GitBuildSource>, changes = {}) => {
      const { failure } = await failureOf({ repository: git.url("app2"), ...source }, changes);
      expect([failure.stage, failure.message]).toEqual(["source", expect.stringMatching(/\.$/)]);
      return failure.code;
    };
    const hanging = of({ repository: `${git.origin}/hangs/a.git` }, { timeoutMs: 10_000 });
    hanging.catch(() => {}); // While the others are tried; awaited below.
    expect(await of({ repository: git.url("nowhere") })).toBe("git_repository_not_found");
    expect(await of({ branch: "nowhere" })).toBe("git_branch_not_found");
    expect(await of({ contextDir: "nowhere" })).toBe("git_context_dir_not_found");
    expect(await of({})).toBe("archive_link_escapes");
    expect(await of({}, { limits: { unpackedBytes: 1_000_000, entries: 1 } })).toBe(
      "archive_too_many_entries",
    );
    expect(await of({ repository: "file:///etc" })).toBe("source_invalid");
    expect(await of({ branch: "--upload-pack=x" })).toBe("source_invalid");
    expect(await of({ contextDir: "../x" })).toBe("source_invalid");
    expect(await hanging).toBe("git_timeout");
  });
}
