import { registerHooks } from "node:module";
import { plantOfEnvironment } from "./planted.ts";

// Loaded before each program of a platform (`--import`), and so also before what those start.
const plant = plantOfEnvironment();
if (plant)
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      const source = plant(url, () => Buffer.from(loaded.source as Uint8Array).toString());
      return source === undefined ? loaded : { ...loaded, source };
    },
  });
