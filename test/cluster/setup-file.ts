import { inject } from "vitest";
import { resolveTo } from "./names.ts";

const platform = inject("platform");
if (platform) resolveTo(platform.appsHost);
