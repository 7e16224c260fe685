import { inject } from "vitest";
import { resolveTo } from "./resolve-names.ts";

const platform = inject("platform");
if (platform) resolveTo(platform.appsHost);
