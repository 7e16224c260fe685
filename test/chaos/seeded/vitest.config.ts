import { pathToFileURL } from "node:url";
import { mergeConfig } from "vitest/config";
import base from "../../../vitest.config.ts";
import { plantOfEnvironment } from "./planted.ts";

const plant = plantOfEnvironment();

/** The project's own configuration, with what the environment says planted in the product. */
export default mergeConfig(base, {
  // What is planted is not to be found by a run of the tests after that.
  test: { fsModuleCache: false },
  plugins: [
    {
      name: "seeded-fault",
      enforce: "pre",
      transform: (code: string, id: string) => plant?.(pathToFileURL(id.split("?")[0]!).href, () => code),
    },
  ],
});
