import { findGoProgram } from "./go-program.ts";

/** Returns the program of the registry that the chart bundles, or undefined, which is printed, where it cannot be built. */
export const findRegistry = () => findGoProgram("registry", "what a real registry answers");
