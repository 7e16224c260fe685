import fc from "fast-check";
import { inject } from "vitest";

// What fast-check makes up is decided by the run's seed.
fc.configureGlobal({ seed: inject("seed") });
