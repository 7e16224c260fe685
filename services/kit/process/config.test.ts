import { expect, test } from "vitest";
import { choice, integer, keys, optionalText, readConfig, text, url } from "./config.ts";

const fields = {
  databaseUrl: url("DATABASE_URL", ["postgres"]),
  port: integer("PORT", { max: 65535, fallback: 80 }),
  level: choice("LEVEL", ["info", "debug"] as const, "info"),
  name: text("NAME"),
  note: optionalText("NOTE"),
  signing: keys("KEYS"),
};

const key = Buffer.alloc(32, 1).toString("base64");

test("a complete environment gives typed values and fallbacks", () => {
  const config = readConfig(
    { DATABASE_URL: "postgres://x/y", NAME: "n", KEYS: `${key},${key}`, PORT: "" },
    fields,
  );
  expect(config).toMatchObject({
    databaseUrl: "postgres://x/y",
    port: 80,
    level: "info",
    name: "n",
    note: undefined,
  });
  expect(config.signing).toHaveLength(2);
});

test("all mistakes are told at once, and no value is shown", () => {
  const secret = "c2VjcmV0";
  const read = () =>
    readConfig({ DATABASE_URL: "mysql://u:hunter2@x", PORT: "70000", LEVEL: "loud", KEYS: secret }, fields);
  expect(read).toThrow(
    /DATABASE_URL must be a URL.*PORT must be a whole.*LEVEL must be.*NAME is not set.*KEYS/s,
  );
  expect(read).not.toThrow(/hunter2|c2VjcmV0|loud/);
});
