import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe } from "vitest";
import { runtimeContract } from "../../../../test/contracts/ports/runtime/contract.ts";
import { wallsHere } from "../../../kit/testing/walls.ts";
import { makeRoot, openHarness } from "./testing.ts";

describe.skipIf(!wallsHere)("behind walls", () => {
  runtimeContract("local, behind walls", async () => {
    const places = makeRoot();
    mkdirSync(places.folder);
    const walls = await wallsHere!([join(places.root, "data"), places.root]);
    return openHarness({ ...places, walls });
  });
});
