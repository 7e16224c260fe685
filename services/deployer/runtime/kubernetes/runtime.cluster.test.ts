import { runtimeContract } from "../../../../test/contracts/ports/runtime.ts";
import { openCluster } from "./testing.ts";

runtimeContract("kubernetes", () => openCluster("contract"));
