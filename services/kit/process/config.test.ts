import { expect, test } from "vitest";
import { choice, integer, keys, optionalText, readConfig, text, url, urls } from "./config.ts";

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

test("several servers are URLs, separated by commas, each of which is checked", () => {
  const read = (value: string) =>
    readConfig({ NATS_URL: value }, { nats: urls("NATS_URL", ["nats", "tls"]) }).nats;
  expect(read("tls://u:p@a:4222,tls://b:4222/")).toBe("tls://u:p@a:4222,tls://b:4222");
  for (const wrong of ["", "tls://a,", "tls://a,b", "tls://a,http://b"])
    expect(() => read(wrong)).toThrow(/^The configuration is not valid:\n {2}NATS_URL /);
});
