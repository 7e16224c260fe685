import { runtimeContract } from "../../../../test/contracts/ports/runtime/contract.ts";
import { openCluster } from "./testing.ts";

runtimeContract("kubernetes", () => openCluster("contract"));
