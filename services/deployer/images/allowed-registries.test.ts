import { expect, test } from "vitest";
import { allowedRegistries } from "./allowed-registries.ts";

test("nothing means every registry", () => {
  expect(allowedRegistries.parse(undefined)).toEqual([]);
});

test.each(["library", "acme/web", "https://ghcr.io", "ghcr.io/", "ghcr.io,", "ghcr.io/web:1", "ghcr.io/Web"])(
  "%s is refused: registries are named by their host",
  (text) => {
    expect(() => allowedRegistries.parse(text)).toThrow("registry.example.com:5000");
  },
);
