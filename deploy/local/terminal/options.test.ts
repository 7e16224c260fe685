import { expect, test } from "vitest";
import { readOptions } from "./options.ts";

const read = (...args: string[]) => readOptions(args, {});

test("addresses of a proxy are read as they will be printed; none forgets one, and nothing keeps it", () => {
  const given = ["--public-url", "https://Berth.example.com:443/", "--apps-domain", "Apps.Example.com"];
  expect(read(...given)).toMatchObject({
    publicUrl: "https://berth.example.com",
    appsDomain: "apps.example.com",
  });
  expect(read("--public-url", "http://10.0.0.1:8080")).toMatchObject({ publicUrl: "http://10.0.0.1:8080" });
  expect(read("--public-url", "none")).toMatchObject({ publicUrl: null, appsDomain: undefined });
  expect(read()).toMatchObject({ listen: "127.0.0.1" });
  for (const address of ["0.0.0.0", "::", "127.0.0.1"])
    expect(read("--listen", address)).toMatchObject({ listen: address });
});

test.each([
  [
    "--public-url",
    ["berth.example.com", "ftp://x.example", "https://x.example/berth", "https://x.example/?a=b"],
  ],
  ["--public-url", ["https://user:word@x.example", "https://x.example/#a", "https://"]],
  [
    "--apps-domain",
    ["localhost", "10.0.0.1", "a..b", "a-.example", ".example.com", "*.example.com", "a_b.example"],
  ],
  ["--apps-domain", ["https://apps.example.com", "apps.example.com:443", `${"a.".repeat(100)}example`, ""]],
  ["--listen", ["192.0.2.200", "localhost", "127.0.0.1:80", "*", ""]],
])("%s refuses what cannot work, and says what to change: %s", (option, values) => {
  for (const value of values)
    expect(() => read(option, value), value).toThrow(
      expect.objectContaining({
        kind: "usage",
        message: expect.stringMatching(
          `^${option} must be .*such as|^${option} must be an address of this machine`,
        ),
      }),
    );
});
