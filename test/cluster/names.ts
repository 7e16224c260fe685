import { inject } from "vitest";
import { leadNamesTo } from "./domain.ts";

const address = inject("platform")?.appsHost;
if (address) leadNamesTo(address);
