import { inject } from "vitest";
import { reach } from "./reach.ts";

const platform = inject("platform");
if (platform) reach(platform);
