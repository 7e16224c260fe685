import { describe, expect, test } from "vitest";
import { chooseLabel } from "./host-label.ts";

describe("a service's host name", () => {
  const names = (service: string, environment: string, project: string) => ({
    service,
    environment,
    project,
  });
  const taken = new Set<string>();
  const choose = (one: ReturnType<typeof names>, id: string) =>
    chooseLabel(one, id, (label) => taken.has(label));

  test("is <service>-<environment>-<project>, and the second to come to the same one gets a mark of its own", () => {
    expect(choose(names("web", "prod", "shop"), "svc_1")).toBe("web-prod-shop");
    taken.add("a-b-c-d");
    const second = choose(names("a", "b-c", "d"), "svc_2");
    expect(second).toMatch(/^a-b-c-d-[0-9a-f]{8}$/);
    expect(choose(names("a", "b-c", "d"), "svc_2")).toBe(second);
    expect(choose(names("a", "b-c", "d"), "svc_3")).not.toBe(second);
    taken.add(second);
    expect(choose(names("a", "b-c", "d"), "svc_2")).toMatch(/^a-b-c-d-[0-9a-f]{16}$/);
  });

  test("is always a valid DNS label", () => {
    const long = "x".repeat(40);
    for (const one of [
      names(long, long, long),
      names("a", "b", "c-"),
      names("a".repeat(31), "-".repeat(31), "z"),
    ]) {
      expect(choose(one, "svc_1")).toMatch(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
    }
  });
});
