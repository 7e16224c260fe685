import fc from "fast-check";
import { inject } from "vitest";

// The run's seed determines what fast-check generates.
fc.configureGlobal({ seed: inject("seed") });
